// A plain convolution on tensor cores, for channels in sixteens, or its gradient with respect to the input.
//
// A block makes OUTPUTS output channels, whose weights it keeps in shared memory in the order in which lanes want them. A
// warp walks down a column of pixels. A row of the input belongs to SIDE rows of the output, whose sums stay in
// registers until they are complete, so each row is read once. Rows come through a ring of its own in shared memory, so
// that several are under way at once.
//
// The weights are the left operand of the products and the pixels the right one: a lane's four channels of a pixel are
// then the operands of two products as they are.
//
// INPUTS is the number of input channels. A warp's column is EIGHTS times eight pixels wide, and as high as the pictures
// divided by the grid's depth; STAGES rows are under way, and RESIDENT blocks share a processor. TURNED is 1 if the kernel
// holds a row of input channels for every output channel, as it does for the gradient.

#include "window.h"
#include "tensor_core.h"

constexpr int TAPS = SIDE * SIDE, BLOCK = 16, BLOCKS = INPUTS / BLOCK, GROUPS = OUTPUTS / BLOCK;
constexpr int WARPS = 4, COLUMN = 8 * EIGHTS, WIDE = COLUMN + SIDE - 1, COPIES = (WIDE + 7) / 8;
// Weights of 16 channels fit into registers.
constexpr bool KEPT = BLOCKS == 1 && GROUPS == 1;

// 16 channels of a row of pixels.
struct Stage {
    float4 pixels[WIDE][4];
};

// The first of the two output channels that a lane makes of sixteen `m`: as many neighbours as possible are one lane's.
__device__ __forceinline__ int first_output(int group, int m) {
    int pair = m / 2 * 2;
    return BLOCK * pair + (pair + 1 < GROUPS ? 4 * group + m % 2 * 2 : 2 * group);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, RESIDENT)
octant_convolution(const float* __restrict__ input, const float* __restrict__ kernel, float* __restrict__ output,
                   Geometry g) {
    int lane = threadIdx.x, warp = threadIdx.y, group = lane / 4, t = lane % 4;
    int outputs = g.output_channels, from_output = blockIdx.y * OUTPUTS;

    // For a block of 16 input channels, lane 4g + t wants the inputs 4t to 4t + 3 of two outputs in every sixteen.
    extern __shared__ uint4 shared[];
    auto weights = reinterpret_cast<uint4(*)[BLOCKS][2][GROUPS][32]>(shared);
    Stage* ring = reinterpret_cast<Stage*>(weights + TAPS) + warp * STAGES;
    for (int place = warp * 32 + lane; place < TAPS * BLOCKS * 2 * GROUPS * 32; place += WARPS * 32) {
        int to_lane = place % 32, m = place / 32 % GROUPS, half = place / (32 * GROUPS) % 2;
        int block = place / (64 * GROUPS) % BLOCKS, tap = place / (64 * GROUPS * BLOCKS);
        int from = block * BLOCK + to_lane % 4 * 4 + 2 * half, to = from_output + first_output(to_lane / 4, m);
        int read = g.reversed ? TAPS - 1 - tap : tap;
        auto weight = [&](int i, int j) {
            int row = read * (TURNED ? outputs : INPUTS) + (TURNED ? to + j : from + i);
            return rounded(kernel[row * (TURNED ? INPUTS : outputs) + (TURNED ? from + i : to + j)]);
        };
        weights[tap][block][half][m][to_lane] = {weight(0, 0), weight(0, 1), weight(1, 0), weight(1, 1)};
    }
    __syncthreads();

    int columns = (g.output_width + COLUMN - 1) / COLUMN, rows = (g.output_height + gridDim.z - 1) / gridDim.z;
    int job = blockIdx.x * WARPS + warp, picture = job / columns, column = job % columns * COLUMN;
    if (picture >= g.pictures) return;
    int first = blockIdx.z * rows, end = min(first + rows, g.output_height);
    const float* pixels = input + (i64)picture * g.input_height * g.input_width * INPUTS;
    float* results = output + (i64)picture * g.output_height * g.output_width * outputs + from_output;
    // A lane copies the same places of every row.
    const float* sources[COPIES];
    bool inside[COPIES];
#pragma unroll
    for (int copy = 0; copy < COPIES; ++copy) {
        int at_x = column - g.low_x + 8 * copy + group;
        inside[copy] = at_x >= 0 && at_x < g.input_width;
        sources[copy] = pixels + ((i64)(first - g.low_y) * g.input_width + at_x) * INPUTS + 4 * t;
    }
    int started_y = first - g.low_y, started_block = 0;
    auto start = [&](Stage& stage) {
        if (started_y < end + SIDE - 1 - g.low_y) {
            bool row = (unsigned)started_y < g.input_height;
#pragma unroll
            for (int copy = 0; copy < COPIES; ++copy) {
                bool there = row && inside[copy];
                int pixel = 8 * copy + group;
                if (pixel < WIDE) start_copy(&stage.pixels[pixel][t], there ? sources[copy] : input, there);
                sources[copy] += started_block + 1 < BLOCKS ? BLOCK : g.input_width * INPUTS - (BLOCKS - 1) * BLOCK;
            }
        }
        if (++started_block == BLOCKS) started_block = 0, ++started_y;
        end_group();
    };
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) start(ring[step]);
    uint4 kept[TAPS][2];
    if (KEPT)
#pragma unroll
        for (int tap = 0; tap < TAPS * 2; ++tap) kept[tap / 2][tap % 2] = weights[tap / 2][0][tap % 2][0][lane];

    int place = 0;
    float totals[SIDE][EIGHTS][GROUPS][4] = {};
    // The input row at y belongs to the output rows y - SIDE + 1 to y. Their sums stay where they are: which of them a row
    // of the input meets is known to the compiler.
    for (int turn = first; turn < end + SIDE - 1; turn += SIDE) {
#pragma unroll
        for (int phase = 0; phase < SIDE; ++phase) {
            int y = turn + phase, done = y - SIDE + 1;
            if (y >= end + SIDE - 1) break;
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block) {
                await_copies<STAGES - 2>();
                start(ring[place == 0 ? STAGES - 1 : place - 1]);
                const Stage& stage = ring[place];
                place = place + 1 < STAGES ? place + 1 : 0;
#pragma unroll
                for (int tx = 0; tx < SIDE; ++tx) {
                    // A lane takes four neighbouring channels of the pixel g of every eight.
                    unsigned right[EIGHTS][4];
#pragma unroll
                    for (int e = 0; e < EIGHTS; ++e) {
                        float4 values = stage.pixels[8 * e + group + tx][t];
                        right[e][0] = rounded(values.x), right[e][1] = rounded(values.y);
                        right[e][2] = rounded(values.z), right[e][3] = rounded(values.w);
                    }
#pragma unroll
                    for (int i = 0; i < SIDE * 2 * GROUPS; ++i) {
                        int ty = i / (2 * GROUPS), half = i / GROUPS % 2, m = i % GROUPS, tap = ty * SIDE + tx;
                        uint4 weight = KEPT ? kept[tap][half] : weights[tap][block][half][m][lane];
                        unsigned left[4] = {weight.x, weight.y, weight.z, weight.w};
#pragma unroll
                        for (int e = 0; e < EIGHTS; ++e)
                            add_product(totals[(phase + SIDE - 1 - ty) % SIDE][e][m], left, right[e][2 * half],
                                        right[e][2 * half + 1]);
                    }
                }
            }
            // A lane has two or four neighbouring channels of the pixels 2t and 2t + 1 of every eight.
#pragma unroll
            for (int i = 0; i < EIGHTS * 2; ++i) {
                int e = i / 2, next = i % 2, at = column + 8 * e + 2 * t + next;
                if (done < first || at >= g.output_width) continue;
                float* to = results + ((i64)done * g.output_width + at) * outputs;
                auto& row = totals[phase][e];
#pragma unroll
                for (int m = 0; m < GROUPS; m += 2) {
                    auto& a = row[m];
                    auto& b = row[m + 1 < GROUPS ? m + 1 : m];
                    float* here = to + first_output(group, m);
                    if (m + 1 < GROUPS)
                        *reinterpret_cast<float4*>(here) = {a[next], a[next + 2], b[next], b[next + 2]};
                    else
                        *reinterpret_cast<float2*>(here) = {a[next], a[next + 2]};
                }
            }
#pragma unroll
            for (int i = 0; i < EIGHTS * GROUPS * 4; ++i) totals[phase][i / 4 / GROUPS][i / 4 % GROUPS][i % 4] = 0;
        }
    }
}
