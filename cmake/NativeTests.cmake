# Every native/tests/test_*.cpp is a program of its own, linked with the engine and, where its
# name says so, with a family of simulators. `ctest` runs them all.
enable_testing()
file(GLOB native_tests CONFIGURE_DEPENDS native/tests/test_*.cpp)

# cartridges for the Atari tests: those of the ale-py that is installed, if it is
set(HEADRACE_ROMS "" CACHE PATH "Folder of Atari ROMs for native/tests; empty: ale-py's")
set(roms ${HEADRACE_ROMS})
if(NOT roms AND TARGET headrace_atari)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "from importlib.util import find_spec; print(find_spec('ale_py').submodule_search_locations[0] + '/roms')"
    OUTPUT_VARIABLE roms OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

# Warp's headers, which those beside Python modules include: behind the system's, as they stand among all packages
if(Python_EXECUTABLE)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "from importlib.util import find_spec; print(find_spec('warp').submodule_search_locations[0] + '/..')"
    OUTPUT_VARIABLE packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

set(leaks suppressions=${PROJECT_SOURCE_DIR}/native/tests/leaks.txt:print_suppressions=0)
foreach(source IN LISTS native_tests)
  get_filename_component(name ${source} NAME_WE)
  string(REGEX MATCH "^test_(atari|box2d|learner|mujoco|lanes)" family ${name})
  string(REPLACE "test_" "headrace_" simulators "${family}")
  if(family AND NOT TARGET ${simulators})
    continue()
  endif()
  if(family MATCHES "atari|box2d" AND HEADRACE_CORE_TESTS AND NOT HEADRACE_SANITIZE)
    continue()  # they run under the address sanitizer
  endif()
  if(name MATCHES "^test_(atari_machine|atari_fuzz|atari_compose|lanes)$" AND HEADRACE_SANITIZE STREQUAL thread)
    continue()  # they run in one thread
  endif()
  if(name MATCHES "^test_(atari_fuzz|lanes)$" AND HEADRACE_CORE_TESTS AND HEADRACE_SANITIZE)
    continue()  # hundreds of models, or of programs
  endif()
  if(name STREQUAL "test_kernels" AND (NOT packages OR HEADRACE_SANITIZE STREQUAL thread))
    continue()  # they run in one thread, and need Warp
  endif()
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE src)  # for headers beside Python modules
  target_link_libraries(${name} PRIVATE headrace_engine)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wno-restrict -UNDEBUG)  # GCC 12's false alarm at "…" + string
  if(name STREQUAL "test_kernels")
    target_compile_definitions(${name} PRIVATE WP_TILE_BLOCK_DIM=1)  # as on a CPU
    target_compile_options(${name} PRIVATE -idirafter ${packages} -Wno-psabi)
  endif()
  if(HEADRACE_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)  # half the time of compilers; what is tested is compiled as before
  endif()
  target_link_libraries(${name} PRIVATE ${simulators})
  if(name MATCHES "^test_atari")
    add_test(NAME ${name} COMMAND ${name} ${roms})
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  set(programs ${name})
  if(family STREQUAL "test_learner" AND TARGET headrace_learner_emulated)
    add_executable(${name}_emulated ${source})
    target_compile_options(${name}_emulated PRIVATE $<TARGET_PROPERTY:${name},COMPILE_OPTIONS>)
    target_link_libraries(${name}_emulated PRIVATE headrace_learner_emulated)
    add_test(NAME ${name}_emulated COMMAND ${name}_emulated)
    list(APPEND programs ${name}_emulated)
  endif()
  set_tests_properties(${programs} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT
    "TSAN_OPTIONS=halt_on_error=1;UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1;LSAN_OPTIONS=${leaks}")
endforeach()
