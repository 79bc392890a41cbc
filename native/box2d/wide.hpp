// Compiles functions twice, the second time for wider registers, which they use on processors that have them.
#pragma once

#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HEADRACE_WIDE __attribute__((target_clones("avx2", "default"), flatten))
#else
#define HEADRACE_WIDE
#endif
