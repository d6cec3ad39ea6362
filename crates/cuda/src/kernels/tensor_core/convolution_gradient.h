// How a block of the kernel's gradient brings rows of pixels into shared memory.

#include "window.h"
#include "tensor_core.h"

constexpr int PAIRS = INPUT_PAIRS * OUTPUT_PAIRS, WARPS = PAIRS * SHARES, THREADS = 32 * WARPS;
constexpr int TAPS = SIDE * SIDE, BLOCK = 16, INPUTS = BLOCK * INPUT_PAIRS, OUTPUTS = BLOCK * OUTPUT_PAIRS;
constexpr int COLUMN = 16, WIDTH = COLUMN * SHARES, WIDE = WIDTH + SIDE - 1;
// Rows that come at once, and stages of the ring. In a turn, the rows of the window and the stages come round together, so
// that the compiler knows every row's slot.
constexpr int TOGETHER = 2, STAGES = 3, TURN = SIDE * TOGETHER;

// A row of pixels as f16 numbers, with room that keeps the lanes of a read on different banks.
template <int PIXELS, int CHANNELS> struct Halves {
    static constexpr int PIXEL = CHANNELS + 8;
    alignas(16) unsigned short values[PIXELS][PIXEL];
};

// How a block copies rows of PIXELS pixels with CHANNELS channels: a thread takes the same pixels of every row.
template <int PIXELS, int CHANNELS> struct Copies {
    static constexpr int QUADS = CHANNELS / 4, ALL = PIXELS * QUADS, COUNT = (ALL + THREADS - 1) / THREADS;
    static constexpr int BETWEEN = THREADS / QUADS;
    static_assert(THREADS % QUADS == 0, "a thread's copies are of the same channels");

    struct Copied {
        float4 quads[ALL];
    };

    int width, channels, thread = 32 * threadIdx.y + threadIdx.x, pixel = thread / QUADS;
    const float* source;
    int bytes[COUNT];

    __device__ __forceinline__ Copies(int width, int channels) : width(width), channels(channels) {}

    __device__ __forceinline__ bool has(int i) const { return (i + 1) * THREADS <= ALL || thread < ALL - i * THREADS; }

    // The first pixel, which may lie outside of the image.
    __device__ __forceinline__ void aim(const float* image, int y, int x) {
        source = image + ((i64)y * width + x + pixel) * channels + thread % QUADS * 4;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) bytes[i] = (unsigned)(x + pixel + i * BETWEEN) < (unsigned)width ? 16 : 0;
    }

    // Copies a row of these images or of others at that distance.
    __device__ __forceinline__ void start(Copied& to, bool there, i64 distance = 0) const {
        unsigned address = shared_address(&to.quads[thread]);
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (has(i))
                start_copy(address + sizeof(float4) * i * THREADS, source + distance + i * BETWEEN * channels, there ? bytes[i] : 0);
    }

    __device__ __forceinline__ void next() { source += width * channels; }

    __device__ __forceinline__ void load(float4 (&own)[COUNT], const Copied& copied) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) own[i] = has(i) ? copied.quads[i * THREADS + thread] : float4{};
    }

    // Norm + ReLU of what was loaded of a row that begins at `x`. Outside of the image zeros stay.
    __device__ __forceinline__ void norm_relu(float4 (&own)[COUNT], int x, bool there, const float4* factors,
                                              const float4* offsets) const {
        float4 factor = factors[thread % QUADS], offset = offsets[thread % QUADS];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            bool inside = there && (unsigned)(x + pixel + i * BETWEEN) < (unsigned)width;
            own[i] = inside ? norm_relu_of(own[i], factor, offset) : float4{};
        }
    }

    // Converts to f16. Returns the larger of the largest magnitude and `most`.
    __device__ __forceinline__ unsigned convert(Halves<PIXELS, CHANNELS>& to, const float4 (&own)[COUNT], Scale scale,
                                                unsigned most) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (has(i)) {
                uint2 four = scale.apply(own[i]);
                most = greater(greater(most, four.x), four.y);
                *reinterpret_cast<uint2*>(&to.values[pixel + i * BETWEEN][thread % QUADS * 4]) = four;
            }
        return most;
    }
};
