// What a block of the convolution keeps in shared memory, and how its weights get there.

#include "window.h"
#include "tensor_core.h"

constexpr int TAPS = SIDE * SIDE, BLOCK = 16, BLOCKS = INPUTS / BLOCK, GROUPS = OUTPUTS / BLOCK, THREADS = 32 * WARPS;
constexpr int COLUMN = 8 * EIGHTS, WIDE = COLUMN + SIDE - 1, COPIES = (WIDE + 7) / 8;
constexpr int POINTWISE = BESIDE || ADDED ? BLOCKS : 0, MIDDLE = SIDE / 2, ALL_BLOCKS = BLOCKS * (1 + ADDED);
// Weights of 16 channels fit into registers.
constexpr bool KEPT = BLOCKS == 1 && GROUPS == 1 && !POINTWISE;

// 16 channels of a row of pixels, as the lanes copy them and as f16 numbers.
struct Copied {
    float4 quads[COPIES][32];
};

struct Row {
    uint2 pixels[8 * COPIES][4];
};

// The weights of one tap, 16 input and 16 output channels.
struct Weights {
    uint4 lanes[32];
};

struct Shared {
    // Those of the pointwise convolution come last.
    Weights weights[TAPS * BLOCKS + POINTWISE][GROUPS];
    Copied ring[WARPS][STAGES];
    Row rows[WARPS];
    float4 factors[BLOCKS][4], offsets[BLOCKS][4];
    unsigned most;
};

// The first of the two output channels that a lane makes of sixteen `m`: as many neighbors as possible are one lane's.
__device__ __forceinline__ int first_output(int group, int m) {
    int pair = m / 2 * 2;
    return BLOCK * pair + (pair + 1 < GROUPS ? 4 * group + m % 2 * 2 : 2 * group);
}

// Brings the block's weights into shared memory, times `factor`. Returns the largest magnitude that this thread read.
__device__ unsigned load_weights(Shared& shared, const float* __restrict__ plain, const float* __restrict__ pointwise,
                                 const Geometry& g, float factor) {
    int thread = 32 * threadIdx.y + threadIdx.x, outputs = g.output_channels;
    unsigned most = 0;
#pragma unroll 4
    for (int item = thread; item < (TAPS * BLOCKS + POINTWISE) * GROUPS * 32; item += THREADS) {
        int lane = item % 32, m = item / 32 % GROUPS, unit = item / (32 * GROUPS), block = unit % BLOCKS;
        int tap = unit / BLOCKS, read = tap == TAPS ? 0 : g.reversed ? TAPS - 1 - tap : tap;
        const float* kernel = tap == TAPS ? pointwise : plain;
        // Four input channels of two output channels.
        int from = block * BLOCK + lane % 4 * 4, to = blockIdx.y * OUTPUTS + first_output(lane / 4, m);
        float4 rows[2];
        if (TRANSPOSED) {
#pragma unroll
            for (int j = 0; j < 2; ++j)
                rows[j] = *reinterpret_cast<const float4*>(kernel + ((i64)read * outputs + to + j) * INPUTS + from);
        } else {
            float2 pairs[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                pairs[i] = *reinterpret_cast<const float2*>(kernel + ((i64)read * INPUTS + from + i) * outputs + to);
            rows[0] = {pairs[0].x, pairs[1].x, pairs[2].x, pairs[3].x};
            rows[1] = {pairs[0].y, pairs[1].y, pairs[2].y, pairs[3].y};
        }
        most = max(most, max(magnitude(rows[0]), magnitude(rows[1])));
        Scale scale{factor};
        uint2 low = scale.apply(rows[0]), high = scale.apply(rows[1]);
        shared.weights[unit][m].lanes[lane] = {low.x, high.x, low.y, high.y};
    }
    return most;
}

// Weights are mostly of a size for which this scale will do.
constexpr float USUAL = 0x1p10f;

// The same, with the scale that suits them.
__device__ Scale load_weights(Shared& shared, const float* __restrict__ kernel, const float* __restrict__ pointwise,
                              const Geometry& g) {
    if (threadIdx.x == 0 && threadIdx.y == 0) shared.most = 0;
    unsigned own = load_weights(shared, kernel, pointwise, g, USUAL);
    __syncthreads();
    own = __reduce_max_sync(~0u, own);
    if (threadIdx.x == 0) atomicMax(&shared.most, own);
    __syncthreads();
    float most = __uint_as_float(shared.most);
    Scale scale{USUAL};
    if (most != 0 && (most < 0x1p-6f || most >= 0x1p5f)) {
        scale = Scale::of(shared.most);
        load_weights(shared, kernel, pointwise, g, scale.factor);
        __syncthreads();
    }
    return scale;
}
