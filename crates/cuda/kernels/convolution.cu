// A plain convolution on tensor cores, for channels in sixteens, or its gradient with respect to the input.
//
// A block makes OUTPUTS output channels, whose weights it keeps in shared memory in the order in which lanes want them. A
// warp walks down a column of pixels. A row of the input belongs to SIDE rows of the output, whose sums stay in
// registers until they are complete, so each row is read once. Rows come through a ring of the warp's own in shared memory,
// so that several are under way at once. The lane that copied four numbers makes f16 numbers of them.
//
// The weights are the left operand of the products and the pixels the right one: a lane's four channels of a pixel are
// then an operand as they are.
//
// INPUTS is the number of input channels. A block has WARPS warps. A warp's column is EIGHTS times eight pixels wide, and as
// high as the pictures divided by the grid's depth; STAGES rows are under way, and RESIDENT blocks share a processor.
// TURNED is 1 if the kernel holds a row of input channels for every output channel, as it does for the gradient.

#include "window.h"
#include "tensor_core.h"

constexpr int TAPS = SIDE * SIDE, BLOCK = 16, BLOCKS = INPUTS / BLOCK, GROUPS = OUTPUTS / BLOCK, THREADS = 32 * WARPS;
constexpr int COLUMN = 8 * EIGHTS, WIDE = COLUMN + SIDE - 1, COPIES = (WIDE + 7) / 8;
// Weights of 16 channels fit into registers.
constexpr bool KEPT = BLOCKS == 1 && GROUPS == 1;

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
    Weights weights[TAPS][BLOCKS][GROUPS];
    Copied ring[WARPS][STAGES];
    Row rows[WARPS];
    unsigned most;
};

// The first of the two output channels that a lane makes of sixteen `m`: as many neighbours as possible are one lane's.
__device__ __forceinline__ int first_output(int group, int m) {
    int pair = m / 2 * 2;
    return BLOCK * pair + (pair + 1 < GROUPS ? 4 * group + m % 2 * 2 : 2 * group);
}

// Brings the block's weights into shared memory, times `factor`. Returns the greatest magnitude that this thread met.
__device__ unsigned load_weights(Shared& shared, const float* __restrict__ kernel, const Geometry& g, float factor) {
    int thread = 32 * threadIdx.y + threadIdx.x, outputs = g.output_channels;
    unsigned most = 0;
#pragma unroll 4
    for (int place = thread; place < TAPS * BLOCKS * GROUPS * 32; place += THREADS) {
        int lane = place % 32, m = place / 32 % GROUPS, block = place / (32 * GROUPS) % BLOCKS;
        int tap = place / (32 * GROUPS * BLOCKS), read = g.reversed ? TAPS - 1 - tap : tap;
        // Four input channels of two output channels.
        int from = block * BLOCK + lane % 4 * 4, to = blockIdx.y * OUTPUTS + first_output(lane / 4, m);
        float4 rows[2];
        if (TURNED) {
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
        shared.weights[tap][block][m].lanes[lane] = {low.x, high.x, low.y, high.y};
    }
    return most;
}

// Weights are mostly of a size for which this scale will do.
constexpr float USUAL = 0x1p10f;

// The same, with the scale that suits them.
__device__ Scale load_weights(Shared& shared, const float* __restrict__ kernel, const Geometry& g) {
    if (threadIdx.x == 0 && threadIdx.y == 0) shared.most = 0;
    unsigned own = load_weights(shared, kernel, g, USUAL);
    __syncthreads();
    own = __reduce_max_sync(~0u, own);
    if (threadIdx.x == 0) atomicMax(&shared.most, own);
    __syncthreads();
    float most = __uint_as_float(shared.most);
    Scale scale{USUAL};
    if (most != 0 && (most < 0x1p-6f || most >= 0x1p5f)) {
        scale = Scale::of(shared.most);
        load_weights(shared, kernel, g, scale.factor);
        __syncthreads();
    }
    return scale;
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
octant_convolution(const float* __restrict__ input, const float* __restrict__ kernel, float* __restrict__ output,
                   Geometry g) {
    int lane = threadIdx.x, warp = threadIdx.y, group = lane / 4, t = lane % 4, outputs = g.output_channels;
    extern __shared__ uint4 memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    Copied* ring = shared.ring[warp];
    Row& row = shared.rows[warp];

    int columns = (g.output_width + COLUMN - 1) / COLUMN, rows = (g.output_height + gridDim.z - 1) / gridDim.z;
    int job = blockIdx.x * WARPS + warp, picture = job / columns, column = job % columns * COLUMN;
    int first = blockIdx.z * rows, end = min(first + rows, g.output_height);
    // A lane copies the same places of every row.
    const float* source = input + 4 * t +
        (((i64)picture * g.input_height + first - g.low_y) * g.input_width + column - g.low_x + group) * INPUTS;
    bool inside[COPIES];
#pragma unroll
    for (int copy = 0; copy < COPIES; ++copy) {
        int pixel = 8 * copy + group, at_x = column - g.low_x + pixel;
        inside[copy] = picture < g.pictures && pixel < WIDE && at_x >= 0 && at_x < g.input_width;
    }
    int started_y = first - g.low_y, started_block = 0;
    auto start = [&](Copied& to) {
        unsigned address = shared_address(&to.quads[0][lane]);
        bool there = (unsigned)started_y < g.input_height && started_y < end + SIDE - 1 - g.low_y;
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy)
            start_copy(address + sizeof(to.quads[0]) * copy, source + 8 * copy * INPUTS, there && inside[copy] ? 16 : 0);
        end_group();
        source += started_block + 1 < BLOCKS ? BLOCK : g.input_width * INPUTS - (BLOCKS - 1) * BLOCK;
        if (++started_block == BLOCKS) started_block = 0, ++started_y;
    };
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) start(ring[step]);
    Scale weight_scale = load_weights(shared, kernel, g);
    if (picture >= g.pictures) return;
    uint4 kept[TAPS];
    if (KEPT)
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap) kept[tap] = shared.weights[tap][0][0].lanes[lane];

    Scale scale;
    // Makes f16 numbers of a row. Returns whether the scale was too great.
    auto convert = [&](const Copied& copied) {
        float4 own[COPIES];
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy) own[copy] = copied.quads[copy][lane];
        unsigned most = 0;
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy) {
            uint2 four = scale.apply(own[copy]);
            most = greater(greater(most, four.x), four.y);
            row.pixels[8 * copy + group][t] = four;
        }
        return overflows(most);
    };

    float* results = output + ((i64)picture * g.output_height * g.output_width + column + 2 * t) * outputs +
                     blockIdx.y * OUTPUTS;
    int place = 0;
    float totals[SIDE][EIGHTS][GROUPS][4] = {};
    // The input row at y belongs to the output rows y - SIDE + 1 to y. Their sums stay where they are: which of them a row
    // of the input meets is known to the compiler.
    for (int turn = first; turn < end + SIDE - 1; turn += SIDE) {
#pragma unroll
        for (int phase = 0; phase < SIDE; ++phase) {
            int y = turn + phase, done = y - SIDE + 1;
            if (y >= end + SIDE - 1) break;
#pragma unroll (BLOCKS > 2 ? 1 : BLOCKS)
            for (int block = 0; block < BLOCKS; ++block) {
                await_copies<STAGES - 2>();
                __syncwarp();
                const Copied& copied = ring[place];
                if (__any_sync(~0u, convert(copied))) {
                    unsigned most = 0;
                    for (int copy = 0; copy < COPIES; ++copy) most = max(most, magnitude(copied.quads[copy][lane]));
                    most = __reduce_max_sync(~0u, most);
                    if (!scale.suffices(most)) {
                        Scale next = Scale::of(most);
                        float change = scale.change(next);
                        scale = next;
#pragma unroll
                        for (int i = 0; i < SIDE * EIGHTS * GROUPS * 4; ++i) (&totals[0][0][0][0])[i] *= change;
                        convert(copied);
                    }
                }
                __syncwarp();
                start(ring[place == 0 ? STAGES - 1 : place - 1]);
                place = place + 1 < STAGES ? place + 1 : 0;
#pragma unroll
                for (int tx = 0; tx < SIDE; ++tx) {
                    // A lane takes four neighbouring channels of the pixel g of every eight.
                    uint2 right[EIGHTS];
#pragma unroll
                    for (int e = 0; e < EIGHTS; ++e) right[e] = row.pixels[8 * e + group + tx][t];
#pragma unroll
                    for (int i = 0; i < SIDE * GROUPS; ++i) {
                        int ty = i / GROUPS, m = i % GROUPS, tap = ty * SIDE + tx;
                        uint4 weight = KEPT ? kept[tap] : shared.weights[tap][block][m].lanes[lane];
                        unsigned left[4] = {weight.x, weight.y, weight.z, weight.w};
#pragma unroll
                        for (int e = 0; e < EIGHTS; ++e)
                            add_product(totals[(phase + SIDE - 1 - ty) % SIDE][e][m], left, right[e].x, right[e].y);
                    }
                }
            }
            // A lane has two or four neighbouring channels of the pixels 2t and 2t + 1 of every eight.
            float back = 1 / (scale.factor * weight_scale.factor);
            float* to = results + (i64)done * g.output_width * outputs;
#pragma unroll
            for (int i = 0; i < EIGHTS * 2; ++i) {
                int e = i / 2, next = i % 2;
                if (done < first || column + 8 * e + 2 * t + next >= g.output_width) continue;
#pragma unroll
                for (int m = 0; m < GROUPS; m += 2) {
                    auto& a = totals[phase][e][m];
                    auto& b = totals[phase][e][m + 1 < GROUPS ? m + 1 : m];
                    float* here = to + (8 * e + next) * outputs + first_output(group, m);
                    if (m + 1 < GROUPS)
                        *reinterpret_cast<float4*>(here) = {a[next] * back, a[next + 2] * back, b[next] * back,
                                                            b[next + 2] * back};
                    else
                        *reinterpret_cast<float2*>(here) = {a[next] * back, a[next + 2] * back};
                }
            }
#pragma unroll
            for (int i = 0; i < EIGHTS * GROUPS * 4; ++i) (&totals[phase][0][0][0])[i] = 0;
        }
    }
}
