# The suites that drive the built program, and the checks of the tree itself. Each end-to-end file is one entry.

# The distribution's interpreter: pytest is its package, and another python3 may come first on the path.
set(SR_PYTHON /usr/bin/python3 CACHE FILEPATH "Python with pytest, for the tests")
set(suite_environment
  PYTHONDONTWRITEBYTECODE=1
  SANDBOX_RUNNER=$<TARGET_FILE:sandbox-runner>)

# A test that is skipped quietly is a test that does not exist.
foreach(source ${unit_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^test_" "unit-" test ${name})
  set_property(TEST ${test} APPEND PROPERTY FAIL_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endforeach()

# Files named test_full_*.py take long: they run with `sh tests/run.sh --full` only.
file(GLOB e2e_sources CONFIGURE_DEPENDS e2e/test_*.py)
foreach(source ${e2e_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^test_" "e2e-" test ${name})
  string(REPLACE "_" "-" test ${test})
  add_test(NAME ${test} COMMAND ${SR_PYTHON} -m pytest ${source}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/e2e)
  set_tests_properties(${test} PROPERTIES LABELS e2e TIMEOUT 300 ENVIRONMENT "${suite_environment}")
  if(test MATCHES "^e2e-full-")
    set_tests_properties(${test} PROPERTIES LABELS "e2e;full" TIMEOUT 3600)
  endif()
endforeach()
# These load the machine on purpose or watch the clock.
foreach(test e2e-leftovers e2e-crash e2e-bench)
  if(TEST ${test})
    set_tests_properties(${test} PROPERTIES RUN_SERIAL ON)
  endif()
endforeach()

# The virtual machine, with the programs of the default preset. It has the host to itself: under emulation, time limits
# are scaled by what its speed was when it started.
add_test(NAME vm COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/vm/run.sh)
set_tests_properties(vm PROPERTIES LABELS vm TIMEOUT 3000 RUN_SERIAL ON SKIP_RETURN_CODE 77
  ENVIRONMENT SANDBOX_RUNNER_TEST_VM_LIMIT=2880)

# sr_check(name command…): a check of the source tree.
function(sr_check name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS check TIMEOUT 120 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endfunction()
sr_check(check-includes ${SR_PYTHON} tests/check_includes.py)
sr_check(check-scripts sh tests/check_scripts.sh)
sr_check(check-manuals sh tests/check_manuals.sh)
sr_check(check-hardening sh tests/check_hardening.sh build)
