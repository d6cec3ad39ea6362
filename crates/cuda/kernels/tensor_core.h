// Products of small matrices of TF32 numbers, summed in f32.
//
// The lanes of a warp share a product of 16×8 by 8×8 numbers. Lane 4g + t holds the left rows g and g + 8 and the right
// column g, each at the inner places t and t + 4, and of the result the rows g and g + 8 at the columns 2t and 2t + 1.
// What a row, a column or an inner place means is free, so the kernels give every lane numbers that lie side by side.

// The nearest TF32 number, whose bits the products look at alone. The number that NVIDIA's arithmetic means by NaN has all
// bits set and must not overflow; converting instead costs half as much again.
__device__ __forceinline__ unsigned rounded(float number) {
    return static_cast<unsigned>(min(__float_as_int(number), 0x7fffefff)) + 0x1000;
}

// `sums` in the order (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1); `left` in the order (g, t), (g + 8, t),
// (g, t + 4), (g + 8, t + 4).
__device__ __forceinline__ void add_product(float (&sums)[4], const unsigned (&left)[4], unsigned right_low,
                                            unsigned right_high) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_low), "r"(right_high));
}

// Starts to copy 16 bytes into shared memory, or zeros where there is nothing to copy.
__device__ __forceinline__ void start_copy(void* to, const void* from, bool there) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(there ? 16 : 0));
}

// Ends a group of copies. `await_copies<N>` waits until at most N groups are still under way.
__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;"); }

template <int N> __device__ __forceinline__ void await_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N));
    __syncwarp();
}
