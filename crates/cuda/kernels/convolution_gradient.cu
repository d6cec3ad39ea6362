// The gradient of a plain convolution's kernel on tensor cores, for channels in sixteens.
//
// A warp owns 16 input and 16 output channels at all taps: the sums over pixels stay in its registers. It walks down
// a column of 8 pixels, which are the inner places of the products. A row of the input meets SIDE rows of the
// cotangent, so the rows of the window move up, and only one is read. Rows come through a ring of its own in shared
// memory, so that several are under way at once.
//
// The warps of a block own different channels of the same pixels as far as there are any, and share the pixels
// otherwise. Every row of blocks writes sums of its own, which the program adds up in a fixed order.

#include "window.h"
#include "tensor_core.h"

// INPUT_PAIRS * OUTPUT_PAIRS warps of a block own different channels.
constexpr int WARPS = 4, PAIRS = INPUT_PAIRS * OUTPUT_PAIRS, SHARES = WARPS / PAIRS;
constexpr int TAPS = SIDE * SIDE, COLUMN = 8, WIDE = COLUMN + SIDE - 1, ROWS = 16, BLOCK = 16;
// Rows under way. As many as the window has, so that a row's place in both is known to the compiler.
constexpr int STAGES = SIDE, COPIES = (WIDE + COLUMN + 7) / 8;

// 16 channels, and room that keeps the lanes of a read on different banks.
struct Pixel {
    float values[BLOCK + 8];
};

// A row of the input, then one of the cotangent.
struct Stage {
    Pixel pixels[WIDE + COLUMN];
};

extern "C" __global__ void __launch_bounds__(WARPS * 32, 3)
octant_convolution_gradient(const float* __restrict__ input, const float* __restrict__ cotangent,
                            float* __restrict__ sums, Geometry g) {
    int lane = threadIdx.x, warp = threadIdx.y, pair = warp % PAIRS, share = warp / PAIRS;
    int group = lane / 4, t = lane % 4;
    int outputs = g.output_channels, output_blocks = outputs / (BLOCK * OUTPUT_PAIRS);
    int from_input = (blockIdx.x / output_blocks * INPUT_PAIRS + pair / OUTPUT_PAIRS) * BLOCK;
    int from_output = (blockIdx.x % output_blocks * OUTPUT_PAIRS + pair % OUTPUT_PAIRS) * BLOCK;

    __shared__ Stage rings[WARPS][STAGES];
    Stage* ring = rings[warp];
    float totals[TAPS][2][4] = {};
    int columns = (g.output_width + COLUMN - 1) / COLUMN, chunks = (g.output_height + ROWS - 1) / ROWS;
    int jobs = g.pictures * chunks * columns;
    for (int job = blockIdx.y * SHARES + share; job < jobs; job += gridDim.y * SHARES) {
        int x = job % columns * COLUMN, first = job / columns % chunks * ROWS, picture = job / columns / chunks;
        int steps = min(ROWS, g.output_height - first) + SIDE - 1;
        // Step s brings row s of the input, and the row of the cotangent that it completes the window of. A lane copies
        // the same places of every row.
        const float* sources[COPIES];
        bool inside[COPIES];
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy) {
            int pixel = 8 * copy + group, at_x = pixel < WIDE ? x + pixel - g.low_x : x + pixel - WIDE;
            i64 in_row = (i64)picture * g.input_height + first - g.low_y;
            i64 out_row = (i64)picture * g.output_height + first - (SIDE - 1);
            inside[copy] = at_x >= 0 && at_x < (pixel < WIDE ? g.input_width : g.output_width);
            sources[copy] = pixel < WIDE ? input + (in_row * g.input_width + at_x) * g.channels + from_input + 4 * t
                                         : cotangent + (out_row * g.output_width + at_x) * outputs + from_output + 4 * t;
        }
        int in_y = first - g.low_y, in_step = g.input_width * g.channels, out_step = g.output_width * outputs;
        int started = 0;
        auto start = [&](Stage& stage) {
            if (started < steps) {
                bool in_there = (unsigned)in_y < g.input_height, out_there = started >= SIDE - 1;
#pragma unroll
                for (int copy = 0; copy < COPIES; ++copy) {
                    int pixel = 8 * copy + group;
                    bool there = inside[copy] && (pixel < WIDE ? in_there : out_there);
                    Pixel* to = &stage.pixels[pixel];
                    if (pixel < WIDE + COLUMN) start_copy(&to->values[4 * t], there ? sources[copy] : input, there);
                    sources[copy] += pixel < WIDE ? in_step : out_step;
                }
            }
            ++started, ++in_y;
            end_group();
        };
        __syncwarp();
#pragma unroll
        for (int step = 0; step < STAGES - 1; ++step) start(ring[step]);
        unsigned window[SIDE][SIDE][4];
        for (int turn = 0; turn < steps; turn += STAGES) {
#pragma unroll
            for (int phase = 0; phase < STAGES; ++phase) {
                int step = turn + phase;
                if (step >= steps) break;
                await_copies<STAGES - 2>();
                start(ring[(phase + STAGES - 1) % STAGES]);
                const Stage& stage = ring[phase];
                // A lane takes two neighbouring channels of the pixels t and t + 4.
                auto read = [&](int pixel) {
                    return *reinterpret_cast<const float2*>(&stage.pixels[pixel].values[2 * group]);
                };
                // The new row takes the place of the oldest one.
#pragma unroll
                for (int tx = 0; tx < SIDE; ++tx) {
                    float2 low = read(t + tx), high = read(t + tx + 4);
                    auto& last = window[phase][tx];
                    last[0] = rounded(low.x), last[1] = rounded(low.y);
                    last[2] = rounded(high.x), last[3] = rounded(high.y);
                }
                if (step < SIDE - 1) continue;
                float2 low = read(WIDE + t), high = read(WIDE + t + 4);
                unsigned right[2][2] = {{rounded(low.x), rounded(high.x)}, {rounded(low.y), rounded(high.y)}};
#pragma unroll
                for (int tap = 0; tap < TAPS; ++tap)
#pragma unroll
                    for (int j = 0; j < 2; ++j)
                        add_product(totals[tap][j], window[(phase + 1 + tap / SIDE) % SIDE][tap % SIDE], right[j][0],
                                    right[j][1]);
            }
        }
    }
    await_copies<0>();

    // A lane holds the input channels 2g and 2g + 1 at four neighbouring output channels.
    float4(*shared)[2][32] = reinterpret_cast<float4(*)[2][32]>(rings);
    float* own = sums + ((i64)blockIdx.y * TAPS * g.channels + from_input + 2 * group) * outputs + from_output + 4 * t;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
        auto& low = totals[tap][0];
        auto& high = totals[tap][1];
        float4 rows[2] = {{low[0], high[0], low[1], high[1]}, {low[2], high[2], low[3], high[3]}};
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (SHARES > 1) {
                __syncthreads();
                shared[warp][r][lane] = rows[r];
                __syncthreads();
                for (int other = 1; other < SHARES; ++other) {
                    float4 more = shared[(warp + other * PAIRS) % WARPS][r][lane];
                    rows[r] = {rows[r].x + more.x, rows[r].y + more.y, rows[r].z + more.z, rows[r].w + more.w};
                }
            }
            if (share == 0) *reinterpret_cast<float4*>(own + ((i64)tap * g.channels + r) * outputs) = rows[r];
        }
    }
}
