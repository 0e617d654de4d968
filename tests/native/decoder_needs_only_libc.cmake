# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause

# The library that only decodes asks for nothing but the C library, shared and static, offers the functions of its header
# and no others, and is small. With -D: NM, OBJDUMP, SHARED, STATIC, HEADER, and MOST_CODE in bytes.

set(c_library bcmp free malloc memcmp memcpy memmove memset realloc sqrt)
# Ubuntu's compilers ask for copies that check the size of what they write to.
list(APPEND c_library __memcpy_chk __memmove_chk __memset_chk)
set(compiler __popcountdi2)  # the runtime of every C compiler
set(startup __cxa_finalize __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable _GLOBAL_OFFSET_TABLE_
  __stack_chk_fail)

# Sets `names` to the last column of nm's output.
function(symbols names)
  execute_process(COMMAND ${NM} ${ARGN} OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY ERROR_QUIET)
  string(REGEX MATCHALL "[^ \n]+\n" found "${lines}")
  list(TRANSFORM found STRIP)
  list(TRANSFORM found REPLACE "@.*$" "")
  list(FILTER found EXCLUDE REGEX ":$")  # names of an archive's members
  set(${names} ${found} PARENT_SCOPE)
endfunction()

symbols(needed -D --undefined-only ${SHARED})
list(REMOVE_ITEM needed ${c_library} ${startup})
if(needed)
  message(FATAL_ERROR "the shared library needs ${needed}")
endif()
symbols(needed --undefined-only ${STATIC})
symbols(own --defined-only ${STATIC})
list(REMOVE_ITEM needed ${c_library} ${compiler} ${startup} ${own})
if(needed)
  message(FATAL_ERROR "the static library needs ${needed}")
endif()

file(STRINGS ${HEADER} stated REGEX "^(const char\\*|h5ld_status) h5ld_[a-z_]+\\(")
list(TRANSFORM stated REPLACE "^.*(h5ld_[a-z_]+)\\(.*$" "\\1")
symbols(offered -D --defined-only ${SHARED})
list(SORT stated)
list(SORT offered)
if(NOT stated STREQUAL offered)
  message(FATAL_ERROR "the library offers ${offered}, the header says ${stated}")
endif()

if(MOST_CODE)
  execute_process(COMMAND ${OBJDUMP} -h ${SHARED} OUTPUT_VARIABLE sections COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH " \\.text +([0-9a-f]+)" text "${sections}")
  math(EXPR code "0x${CMAKE_MATCH_1}")
  if(code GREATER MOST_CODE)
    message(FATAL_ERROR "${code} bytes of machine code; at most ${MOST_CODE} are promised")
  endif()
endif()
