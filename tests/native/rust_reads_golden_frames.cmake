# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause

# The example in Rust decodes all golden frames to the values that they have always had, and refuses what is none. With
# -D: RUSTC, LIBRARY (the static one), FOLDER.

set(tests ${CMAKE_CURRENT_LIST_DIR}/..)
file(REMOVE_RECURSE ${FOLDER})
file(GLOB frames ${tests}/golden/v1/*.frame)
file(COPY ${frames} DESTINATION ${FOLDER})
cmake_path(GET LIBRARY PARENT_PATH libraries)
execute_process(COMMAND_ERROR_IS_FATAL ANY
  COMMAND ${RUSTC} -O -D warnings ${tests}/../examples/rust/decode.rs -o ${FOLDER}/decode -L ${libraries}
    -l static=h5lossy_decode)

file(GLOB frames ${FOLDER}/*.frame)
execute_process(COMMAND ${FOLDER}/decode ${frames} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
foreach(frame IN LISTS frames)
  cmake_path(GET frame STEM LAST_ONLY name)
  file(READ ${tests}/golden/v1/${name}.json about)
  string(JSON expected GET "${about}" holds decoded_sha256)
  file(SHA256 ${frame}.values digest)
  if(NOT digest STREQUAL expected)
    message(FATAL_ERROR "${name}: other values")
  endif()
endforeach()

file(WRITE ${FOLDER}/text "no frame at all, but as long as the header of one is")
execute_process(COMMAND ${FOLDER}/decode ${FOLDER}/text RESULT_VARIABLE result ERROR_VARIABLE said)
if(result EQUAL 0 OR NOT said MATCHES "not a frame of h5lossy")
  message(FATAL_ERROR "${result}: ${said}")
endif()
