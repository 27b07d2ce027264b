# layer(NAME SRCS ... [EXPOSES ...] [USES ...] [LIBS ...] [TESTS ...])
#
# A room of the architecture: one static library, ondol_NAME, built from src/NAME. Each layer has an include root of
# its own that holds nothing but itself, so `#include "other/x.h"` compiles only if `other` is declared here:
#   EXPOSES  layers whose headers appear in this layer's headers (its users see them too)
#   USES     layers whose headers appear in its sources only
#   LIBS     libraries from outside, linked privately
#   TESTS    its unit tests (x_test.cc beside x.cc); they link this layer and GoogleTest, nothing else
function(layer NAME)
  cmake_parse_arguments(L "" "" "SRCS;EXPOSES;USES;LIBS;TESTS" ${ARGN})
  if(L_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "layer(${NAME}): unknown arguments ${L_UNPARSED_ARGUMENTS}")
  endif()
  set(root ${PROJECT_BINARY_DIR}/include/${NAME})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${NAME} ${root}/${NAME} SYMBOLIC)

  list(TRANSFORM L_SRCS PREPEND ${PROJECT_SOURCE_DIR}/src/${NAME}/)
  add_library(ondol_${NAME} STATIC ${L_SRCS})
  target_include_directories(ondol_${NAME} PUBLIC ${root})
  list(TRANSFORM L_EXPOSES PREPEND ondol_)
  list(TRANSFORM L_USES PREPEND ondol_)
  target_link_libraries(ondol_${NAME} PUBLIC ${L_EXPOSES} PRIVATE ${L_USES} ${L_LIBS} ondol_warnings)

  if(L_TESTS AND ONDOL_TESTS)
    list(TRANSFORM L_TESTS PREPEND ${PROJECT_SOURCE_DIR}/src/${NAME}/)
    add_executable(${NAME}_test ${L_TESTS})
    target_link_libraries(${NAME}_test PRIVATE ondol_${NAME} ondol_test_support ondol_warnings GTest::gmock_main)
    gtest_discover_tests(${NAME}_test TEST_PREFIX "${NAME}." DISCOVERY_MODE PRE_TEST PROPERTIES LABELS unit TIMEOUT 600)
  endif()
endfunction()
