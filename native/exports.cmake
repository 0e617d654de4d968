# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause

# Has a Windows library export the functions that some headers declare, and others by name. Elsewhere the visibility of
# symbols says what is exported.
function(h5l_export library prefix)
  set(names "")
  foreach(header IN LISTS ARGN)
    if(NOT header MATCHES "\\.h$")
      list(APPEND names ${header})
      continue()
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    file(STRINGS ${header} lines REGEX "^[a-z].*[ *]${prefix}[a-z0-9_]+\\(")
    list(TRANSFORM lines REPLACE "^.*[ *](${prefix}[a-z0-9_]+)\\(.*$" "\\1")
    list(APPEND names ${lines})
  endforeach()
  string(JOIN "\n  " text EXPORTS ${names})
  file(CONFIGURE OUTPUT ${library}.def @ONLY CONTENT "${text}\n")
  target_sources(${library} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${library}.def)
endfunction()
