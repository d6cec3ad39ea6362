// A plain convolution on tensor cores, for channels in sixteens, or its gradient with respect to the input.
//
// A block makes 16 output channels, whose weights it keeps in shared memory in the order in which lanes want them. A
// warp walks down a column of pixels. A row of the input belongs to SIDE rows of the output, whose sums stay in
// registers until they are complete, so each row is read once. Rows come through a ring of its own in shared memory, so
// that several are under way at once.
//
// INPUTS is the number of input channels. TURNED is 1 if the kernel holds a row of input channels for every output
// channel, as it does for the gradient.

#include "window.h"
#include "tensor_core.h"

constexpr int WARPS = 4, TAPS = SIDE * SIDE, BLOCK = 16, BLOCKS = INPUTS / BLOCK;
// Fragments of 16 pixels side by side, and output rows that a warp makes.
constexpr int FRAGMENTS = 2, COLUMN = 16 * FRAGMENTS, WIDE = COLUMN + SIDE - 1;
// Rows under way: as many as there is shared memory for.
constexpr int STAGES = INPUTS > 32 ? 2 : 3, COPIES = (WIDE + 7) / 8;
constexpr int ROWS = 16;

// 16 channels of a row of pixels.
struct Stage {
    float4 pixels[WIDE][4];
};

extern "C" __global__ void __launch_bounds__(WARPS * 32, 3)
octant_convolution(const float* __restrict__ input, const float* __restrict__ kernel, float* __restrict__ output,
                   Geometry g) {
    int lane = threadIdx.x, warp = threadIdx.y, group = lane / 4, t = lane % 4;
    int outputs = g.output_channels, from_output = blockIdx.y * BLOCK;

    // For a block of 16 input channels, lane 4g + t wants the inputs 4t to 4t + 3 of two outputs.
    __shared__ uint4 weights[TAPS][BLOCKS][2][32];
    __shared__ Stage rings[WARPS][STAGES];
    Stage* ring = rings[warp];
    for (int place = warp * 32 + lane; place < TAPS * BLOCKS * 64; place += WARPS * 32) {
        int to_lane = place % 32, half = place / 32 % 2, block = place / 64 % BLOCKS, tap = place / 64 / BLOCKS;
        int from = block * BLOCK + to_lane % 4 * 4, column = to_lane / 4;
        int to = from_output + column / 2 * 4 + 2 * half + column % 2;
        int read = g.reversed ? TAPS - 1 - tap : tap;
        auto weight = [&](int i) {
            int at = TURNED ? (read * outputs + to) * INPUTS + from + i : (read * INPUTS + from + i) * outputs + to;
            return rounded(kernel[at]);
        };
        weights[tap][block][half][to_lane] = {weight(0), weight(1), weight(2), weight(3)};
    }
    __syncthreads();

    int columns = (g.output_width + COLUMN - 1) / COLUMN, chunks = (g.output_height + ROWS - 1) / ROWS;
    int job = blockIdx.x * WARPS + warp;
    int x = job % columns * COLUMN + group, first = job / columns % chunks * ROWS, picture = job / columns / chunks;
    if (picture >= g.pictures) return;
    int end = min(first + ROWS, g.output_height);
    const float* pixels = input + (i64)picture * g.input_height * g.input_width * INPUTS;
    float* results = output + (i64)picture * g.output_height * g.output_width * outputs + from_output + 4 * t;
    // A lane copies the same places of every row.
    const float* sources[COPIES];
    bool inside[COPIES];
#pragma unroll
    for (int copy = 0; copy < COPIES; ++copy) {
        int at_x = x - g.low_x + 8 * copy;
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
    // Weights of 16 channels fit into registers.
    uint4 kept[TAPS][2];
    if (BLOCKS == 1)
#pragma unroll
        for (int tap = 0; tap < TAPS * 2; ++tap) kept[tap / 2][tap % 2] = weights[tap / 2][0][tap % 2][lane];

    int place = 0;
    float totals[SIDE][FRAGMENTS][2][4] = {};
    // The input row at y belongs to the output rows y - SIDE + 1 to y.
    for (int y = first; y < end + SIDE - 1; ++y) {
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
            await_copies<STAGES - 2>();
            start(ring[place == 0 ? STAGES - 1 : place - 1]);
            const Stage& stage = ring[place];
            place = place + 1 < STAGES ? place + 1 : 0;
#pragma unroll
            for (int tx = 0; tx < SIDE; ++tx) {
                // A lane takes four neighbouring channels of the pixels g and g + 8 of every fragment.
                unsigned left[FRAGMENTS][2][4];
#pragma unroll
                for (int f = 0; f < FRAGMENTS; ++f) {
                    float4 low = stage.pixels[16 * f + group + tx][t], high = stage.pixels[16 * f + 8 + group + tx][t];
                    unsigned values[8] = {rounded(low.x), rounded(high.x), rounded(low.y), rounded(high.y),
                                          rounded(low.z), rounded(high.z), rounded(low.w), rounded(high.w)};
#pragma unroll
                    for (int i = 0; i < 8; ++i) left[f][i / 4][i % 4] = values[i];
                }
#pragma unroll
                for (int ty = 0; ty < SIDE; ++ty) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        int tap = ty * SIDE + tx;
                        uint4 weight = BLOCKS == 1 ? kept[tap][half] : weights[tap][block][half][lane];
#pragma unroll
                        for (int f = 0; f < FRAGMENTS; ++f) {
                            auto& sums = totals[SIDE - 1 - ty][f][half];
                            add_product(sums, left[f][0], weight.x, weight.y);
                            add_product(sums, left[f][1], weight.z, weight.w);
                        }
                    }
                }
            }
        }
        // totals[0] is the output row that this input row completes.
        int done = y - SIDE + 1;
        if (done >= first)
#pragma unroll
            for (int f = 0; f < FRAGMENTS; ++f)
#pragma unroll
                for (int high = 0; high < 2; ++high) {
                    auto& a = totals[0][f][0];
                    auto& b = totals[0][f][1];
                    int at = x + 16 * f + 8 * high;
                    float4 values = {a[2 * high], a[2 * high + 1], b[2 * high], b[2 * high + 1]};
                    float* to = results + ((i64)done * g.output_width + at) * outputs;
                    if (at < g.output_width) *reinterpret_cast<float4*>(to) = values;
                }
#pragma unroll
        for (int row = 0; row < SIDE; ++row)
#pragma unroll
            for (int f = 0; f < FRAGMENTS; ++f)
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    totals[row][f][i / 4][i % 4] = row + 1 < SIDE ? totals[row + 1][f][i / 4][i % 4] : 0;
    }
}
