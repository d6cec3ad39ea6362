// Products of small matrices of f16 numbers, summed in f32, as precise as those of TF32 numbers and twice as fast.
//
// An f16 number keeps as many bits as a TF32 number, but has a smaller range: it is the range that a scale takes care of, a
// power of two by which a warp or a block multiplies what it reads. It is chosen by the first numbers, with room for
// numbers 64 times as large, and again when that does not suffice. Numbers down to 2^-23 of the largest one keep all their
// bits, and what is lost of smaller ones is less than 2^-34 of it.
//
// The lanes of a warp share a product of 16×16 by 16×8 numbers. Lane 4g + t holds the left rows g and g + 8 and the right
// column g, each at two pairs of inner indices, and of the result the rows g and g + 8 at the columns 2t and 2t + 1.
// Which inner indices those are is free, if they are the same on both sides.

// The nearest f16 numbers, the first in the lower half. What is too great becomes infinite.
__device__ __forceinline__ unsigned halves(float low, float high) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// `sums` in the order (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1); `left` in the order (g, first pair), (g + 8, first
// pair), (g, second pair), (g + 8, second pair).
__device__ __forceinline__ void add_product(float (&sums)[4], const unsigned (&left)[4], unsigned right_first,
                                            unsigned right_second) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_first), "r"(right_second));
}

// Both numbers of `pair` times those of `factors`.
__device__ __forceinline__ unsigned times(unsigned pair, unsigned factors) {
    unsigned product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(pair), "r"(factors));
    return product;
}

// The greater magnitudes of two pairs. The first has no signs.
__device__ __forceinline__ unsigned greater(unsigned most, unsigned pair) {
    unsigned both;
    asm("{.reg .b32 t; abs.f16x2 t, %2; max.f16x2 %0, %1, t;}" : "=r"(both) : "r"(most), "r"(pair));
    return both;
}

// Whether one of two magnitudes is infinite.
__device__ __forceinline__ bool overflows(unsigned pair) {
    return (pair & 0xffff) == 0x7c00 || pair >> 16 == 0x7c00;
}

// The bits of a magnitude, which are in the order of the magnitudes. Numbers that no scale can help do not count.
__device__ __forceinline__ unsigned magnitude(float number) {
    unsigned bits = __float_as_uint(number) & 0x7fffffff;
    return bits < 0x7f800000 ? bits : 0;
}

__device__ __forceinline__ unsigned magnitude(float4 four) {
    return max(max(magnitude(four.x), magnitude(four.y)), max(magnitude(four.z), magnitude(four.w)));
}

struct Scale {
    // As long as nothing but zeros was met.
    float factor = 0x1p127f;

    // Puts a magnitude a 64th below the largest f16 number.
    __device__ __forceinline__ static Scale of(unsigned most) {
        Scale scale;
        scale.factor = __uint_as_float(min(127u + 127 + 9 - (most >> 23), 254u) << 23);
        return scale;
    }

    __device__ __forceinline__ bool suffices(unsigned most) const { return __uint_as_float(most) * factor < 65520; }

    __device__ __forceinline__ uint2 apply(float4 four) const {
        return {halves(four.x * factor, four.y * factor), halves(four.z * factor, four.w * factor)};
    }

    // What sums are to be multiplied with that were made before the scale became `next`.
    __device__ __forceinline__ float change(const Scale& next) const { return next.factor / factor; }
};

// Four numbers times factors plus offsets, and zero where that is negative. NaN stays NaN.
__device__ __forceinline__ float4 norm_relu_of(float4 four, float4 factors, float4 offsets) {
    auto of = [](float number, float factor, float offset) {
        float result;
        asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(result) : "f"(fmaf(number, factor, offset)));
        return result;
    };
    return {of(four.x, factors.x, offsets.x), of(four.y, factors.y, offsets.y), of(four.z, factors.z, offsets.z),
            of(four.w, factors.w, offsets.w)};
}

// Starts to copy 16 bytes into shared memory, or zeros where there are none to copy.
__device__ __forceinline__ void start_copy(unsigned to, const void* from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

// Ends a group of copies. `await_copies<N>` waits until at most N groups of this thread are still in flight.
__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;"); }

template <int N> __device__ __forceinline__ void await_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ __forceinline__ unsigned shared_address(const void* address) {
    return static_cast<unsigned>(__cvta_generic_to_shared(address));
}
