# Builds the kernels' tests for aarch64 and runs them under qemu. Says SKIPPED where a tool is missing.
#   cmake -DBUILD=<directory> -DLAUNCHER=<ccache or empty> -P run.cmake
find_program(CXX aarch64-linux-gnu-g++)
find_program(QEMU NAMES qemu-aarch64 qemu-aarch64-static)
find_path(GTEST_SOURCE src/gtest-all.cc PATHS /usr/src/googletest/googletest /usr/src/gtest NO_DEFAULT_PATH)
find_path(FMT_INCLUDE fmt/format.h PATHS /usr/include /usr/local/include NO_DEFAULT_PATH)
foreach(tool CXX QEMU GTEST_SOURCE FMT_INCLUDE)
  if(NOT ${tool})
    message("SKIPPED: ${tool} was not found (aarch64-linux-gnu-g++, qemu-user, googletest's sources and fmt are needed)")
    return()
  endif()
endforeach()

execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${BUILD} -G Ninja -DCMAKE_BUILD_TYPE=Release
          -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=${CXX}
          -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DGTEST_SOURCE=${GTEST_SOURCE} -DFMT_INCLUDE=${FMT_INCLUDE}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BUILD} --parallel 2 COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${QEMU} -cpu max ${BUILD}/kernels_test_neon --gtest_filter=*neon* --gtest_brief=1
                COMMAND_ERROR_IS_FATAL ANY)
