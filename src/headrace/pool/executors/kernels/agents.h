// The barrier of agents.py: the body of its function.
#pragma once

namespace headrace::kernels {

// Waits for the other lanes of an environment.
inline void barrier([[maybe_unused]] int lanes) {
#if defined(__CUDA_ARCH__)
  if (lanes > 32) {
    __syncthreads();
  } else {
    unsigned members = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1u;
    __syncwarp(members << (threadIdx.x & 31u & ~(unsigned(lanes) - 1u)));
  }
#elif WP_TILE_BLOCK_DIM > 1
  WP_TILE_SYNC();  // lanes are fibers on one core, where warp.config.enable_cpu_blocks says so
#endif
}

}  // namespace headrace::kernels
