# Defines the target `ale`: the Arcade Learning Environment's emulator, built from ale-py's source
# distribution. An unpacked copy can be named with -DHEADRACE_ALE_SOURCE=… instead, or with -DHEADRACE_ALE=… what
# another build has compiled and exported.
set(HEADRACE_ALE_SOURCE "" CACHE PATH "Unpacked ale-py source distribution; empty: download it")
set(HEADRACE_ALE "" CACHE FILEPATH "ale.cmake of a build folder whose emulator is linked; empty: compile it")
include(SourceDistribution)

find_package(ZLIB)
if(NOT ZLIB_FOUND)
  message(FATAL_ERROR
    "The Atari emulator needs zlib's headers, and they were not found. Install them "
    "(Debian/Ubuntu: apt-get install zlib1g-dev; Fedora: dnf install zlib-devel; conda: zlib).")
endif()

if(HEADRACE_ALE)
  include(${HEADRACE_ALE})
  set_target_properties(ale PROPERTIES IMPORTED_GLOBAL TRUE)
  return()
endif()

headrace_source_distribution(ale-py c503d574c5983e1063b451201ccb779d935919c0f6bf116fb0f4f8aa4c86d249
  "the Atari emulator's sources" ale_source HEADRACE_ALE_SOURCE)

foreach(part BUILD_CPP_LIB BUILD_PYTHON_LIB BUILD_VECTOR_LIB BUILD_VECTOR_XLA_LIB BUILD_WASM_LIB SDL_SUPPORT)
  set(${part} OFF CACHE BOOL "" FORCE)
endforeach()
add_subdirectory(${ale_source} ${CMAKE_CURRENT_BINARY_DIR}/ale EXCLUDE_FROM_ALL)

# ale_interface.cpp belongs to the library that we do not ask for; what replaces
# phosphor_blend.cpp is native/atari/colour_averaging.cpp
get_target_property(sources ale SOURCES)
list(FILTER sources EXCLUDE REGEX "phosphor_blend\\.cpp$")
set_target_properties(ale PROPERTIES SOURCES "${sources}")
target_sources(ale PRIVATE ${ale_source}/src/ale/ale_interface.cpp)
target_include_directories(ale SYSTEM INTERFACE ${ale_source}/src ${CMAKE_CURRENT_BINARY_DIR}/ale/src/ale)
target_link_libraries(ale INTERFACE ZLIB::ZLIB Threads::Threads)
# Compiled file by file the CPU's memory accesses are inlined into its instruction loop; link-time
# optimisation undoes that, and was 10–20 % slower (Pong, Breakout; GCC 12).
set_target_properties(ale PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
target_compile_options(ale PRIVATE -w)
if(HEADRACE_SANITIZE STREQUAL "address")
  # its decimal subtraction reads the table's other row, and a game's settings are copied before they are set: neither is
  # ours, and the machine that takes its place has to do the same. Its memory is still watched.
  target_compile_options(ale PRIVATE -fno-sanitize=undefined)
endif()
# a hundred small games: most of the time goes into the headers of each, so thirty are compiled at once
list(FILTER sources EXCLUDE REGEX "/games/supported/")
set_source_files_properties(${sources} TARGET_DIRECTORY ale PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set_target_properties(ale PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 30)
export(TARGETS ale FILE ${CMAKE_BINARY_DIR}/ale.cmake)
