# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause

# Programs in C find the library that only decodes once it is installed: by CMake, and by pkg-config if that is there.
# With -D: BUILD, FOLDER, PROGRAM, FRAME.

set(prefix ${FOLDER}/prefix)
file(REMOVE_RECURSE ${FOLDER})
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component decode)
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/installed_decoder -B ${FOLDER}/build -DPROGRAM=${PROGRAM}
  -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${FOLDER}/build)
run(${FOLDER}/build/with_h5lossy_decode ${FRAME})
run(${FOLDER}/build/with_h5lossy_decode_static ${FRAME})

find_program(pkg_config pkg-config)
find_program(cc cc)
file(GLOB_RECURSE found ${prefix}/*.pc)
cmake_path(GET found PARENT_PATH folder)
if(pkg_config AND cc)
  set(ENV{PKG_CONFIG_PATH} ${folder})
  execute_process(COMMAND ${pkg_config} --static --cflags --libs h5lossy_decode OUTPUT_VARIABLE flags
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${cc} -std=c99 ${PROGRAM} -o ${FOLDER}/with_pkg_config ${flags})
  cmake_path(GET folder PARENT_PATH libraries)
  run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${libraries} ${FOLDER}/with_pkg_config ${FRAME})
endif()
