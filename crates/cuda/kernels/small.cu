// One block that computes many small arrays, step after step: BODY with THREADS threads.
//
// It reads and writes the arrays at `places`, keeps what its steps hand on in `shared`, and waits at every `barrier`.

#include "element.h"

// As much as a kernel's parameters may hold on every GPU.
#define WORDS 500

#define barrier __syncthreads()
#define restrict __restrict__
#define UNROLL _Pragma("unroll 8")

// The addresses of the operands, then of the results.
struct Table {
    void *places[WORDS];
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) octant_small(const __grid_constant__ Table table) {
    extern __shared__ float shared[];
    void *const *places = table.places;
    const unsigned thread = threadIdx.x;
    BODY
}
