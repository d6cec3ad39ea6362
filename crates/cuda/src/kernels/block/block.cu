// One block that computes many small arrays, step after step: BODY with THREADS threads.
//
// It reads and writes the arrays at `buffers`, keeps what its steps hand on in `shared`, and waits at every `barrier`. What it
// needs later it begins to FETCH, and waits until that is FETCHED.

#include "element.h"

#define barrier __syncthreads()
#define restrict __restrict__
#define UNROLL _Pragma("unroll 8")

#define FETCH(to, buffer, count) \
    for (unsigned i = thread; i < count; i += THREADS) fetch(shared + to + i, (const float *)buffers[buffer] + i);
#define FETCHED asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory")

__device__ __forceinline__ void fetch(float *to, const float *from) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from));
}

// The addresses of the operands, then of the results.
struct Table {
    void *buffers[WORDS];
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) octant_block(const __grid_constant__ Table table) {
    extern __shared__ float shared[];
    void *const *buffers = table.buffers;
    const unsigned thread = threadIdx.x;
    BODY
}
