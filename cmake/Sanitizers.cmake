# HEADRACE_SANITIZE instruments everything that is compiled. What a simulator's library does is seen where it
# allocates, copies or locks; the emulator is instrumented, too, unless HEADRACE_ALE names one that is compiled.
if(HEADRACE_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread)
elseif(HEADRACE_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize=vptr)
elseif(HEADRACE_SANITIZE)
  message(FATAL_ERROR "HEADRACE_SANITIZE must be empty, thread or address, not '${HEADRACE_SANITIZE}'")
endif()
if(sanitize)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)  # the emulator sets -O3 for Release, after our -O1
  # -g1: lines for traces; to track variables, too, takes up to four times as long
  add_compile_options(${sanitize} -O1 -g1 -fno-omit-frame-pointer)
  add_link_options(${sanitize})
  if(HEADRACE_CORE_TESTS)
    set(HEADRACE_UNOPTIMISED -O0)  # what is compiled for many widths of registers: a quarter of the compilers' time
  endif()
endif()
