# pytest_suite(NAME): each tests/NAME/test_*.py becomes one CTest test, labelled NAME and pytest. ./test runs them with
# pytest itself, for a count by case; the Python with their packages is build/venv, which ./test makes.
function(pytest_suite NAME)
  file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/test_*.py)
  foreach(script ${scripts})
    cmake_path(GET script STEM stem)
    string(REPLACE "test_" "" stem ${stem})
    add_test(NAME ${NAME}.${stem}
             COMMAND ${PROJECT_SOURCE_DIR}/build/venv/bin/python -m pytest -q ${script}
             WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set_tests_properties(${NAME}.${stem} PROPERTIES LABELS "${NAME};pytest" TIMEOUT 1500
                         ENVIRONMENT ONDOL=${PROJECT_BINARY_DIR}/ondol)
  endforeach()
endfunction()
