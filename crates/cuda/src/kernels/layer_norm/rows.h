// What both directions of layer norm share.
//
// LANES threads work on a row: thread `lane` has the elements `(k * LANES + lane) * WIDTH + i` for k < PARTS and i < WIDTH, so that
// neighbors read neighboring vectors of up to 16 bytes. ELEMENT is the type of the arrays: float, or the bits of bf16 or f16.
//
// CHANNELS, LANES, PARTS and WIDTH are macros. WIDTH divides CHANNELS.

constexpr int THREADS = 256, ROWS = THREADS / LANES, WARPS = (LANES + 31) / 32;
typedef long long i64;

#if KIND == 0
typedef float Element;
__device__ inline float wide(Element x) { return x; }
__device__ inline Element narrow(float x) { return x; }
#elif KIND == 1
typedef unsigned short Element;
__device__ inline float wide(Element x) { return __int_as_float((unsigned)x << 16); }
// To the nearest, ties to even; a NaN stays one.
__device__ inline Element narrow(float x) {
    unsigned bits = __float_as_int(x);
    return x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
#else
typedef unsigned short Element;
__device__ inline float wide(Element x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
__device__ inline Element narrow(float x) {
    Element y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
#endif

template <class T>
struct alignas(sizeof(T) * WIDTH <= 16 ? sizeof(T) * WIDTH : 16) Vector {
    T items[WIDTH];
};

// The first channel of part k, or none if the row ends before it.
__device__ inline int channel(int k) {
    int first = (k * LANES + threadIdx.x % LANES) * WIDTH;
    return first < CHANNELS ? first : -1;
}

template <class T, class F>
__device__ inline void each(const T* row, F act) {
#pragma unroll
    for (int k = 0; k < PARTS; ++k) {
        int first = channel(k);
        if (first < 0) break;
        Vector<T> vector = *(const Vector<T>*)(row + first);
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) act(k * WIDTH + i, vector.items[i]);
    }
}

// The sums of all threads of a row, in the same order every time.
template <int COUNT>
__device__ inline void sum_row(float (&values)[COUNT]) {
#pragma unroll
    for (int distance = min(LANES, 32) / 2; distance > 0; distance /= 2)
#pragma unroll
        for (int i = 0; i < COUNT; ++i) values[i] += __shfl_xor_sync(~0u, values[i], distance);
    if (WARPS > 1) {
        __shared__ float sums[COUNT][THREADS / 32];
        __syncthreads();
        if (threadIdx.x % 32 == 0)
            for (int i = 0; i < COUNT; ++i) sums[i][threadIdx.x / 32] = values[i];
        __syncthreads();
        for (int i = 0; i < COUNT; ++i) {
            values[i] = 0;
            for (int warp = 0; warp < WARPS; ++warp) values[i] += sums[i][threadIdx.x / LANES * WARPS + warp];
        }
    }
}
