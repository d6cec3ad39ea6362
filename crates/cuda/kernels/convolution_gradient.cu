// The gradient of a plain convolution's kernel on tensor cores, for channels in sixteens.
//
// A warp owns 16 input and 16 output channels at all taps: the sums over pixels stay in its registers. It walks down
// a column of 8 pixels, which are the inner places of the products. A row of the input meets SIDE rows of the
// cotangent, so the rows of the window move up, and only one is read.
//
// INPUT_PAIRS * OUTPUT_PAIRS warps of a block own different channels of the same pixels, SHARES different columns. Rows
// come through a ring in shared memory, two at once, so that several are under way, also those of the next column. Every
// row of blocks writes sums of its own, which the program adds up in a fixed order.

#include "window.h"
#include "tensor_core.h"

constexpr int PAIRS = INPUT_PAIRS * OUTPUT_PAIRS, WARPS = PAIRS * SHARES, THREADS = 32 * WARPS, RESIDENT = 12 / WARPS;
constexpr int TAPS = SIDE * SIDE, BLOCK = 16, INPUTS = BLOCK * INPUT_PAIRS, OUTPUTS = BLOCK * OUTPUT_PAIRS;
constexpr int COLUMN = 8, WIDTH = COLUMN * SHARES, WIDE = WIDTH + SIDE - 1;
// Rows that come at once, stages of the ring, and steps of a job: the rows of the input that its rows of the cotangent
// meet. A turn of the window and whole stages divide them, so that the compiler knows every row's place.
constexpr int TOGETHER = 2, STAGES = 3, TURN = SIDE * TOGETHER, STEPS = 3 * TURN, ROWS = STEPS - SIDE + 1;
// Copies of four channels that make up a row.
constexpr int INPUT_QUADS = INPUTS / 4, OUTPUT_QUADS = OUTPUTS / 4, INPUT_COPIES = WIDE * INPUT_QUADS;
constexpr int ALL_COPIES = INPUT_COPIES + WIDTH * OUTPUT_QUADS, COPIES = (ALL_COPIES + THREADS - 1) / THREADS;

// A pixel's channels, and room that keeps the lanes of a read on different banks.
constexpr int INPUT_PIXEL = INPUTS + 8, OUTPUT_PIXEL = OUTPUTS + 8, COTANGENTS = WIDE * INPUT_PIXEL;

// A row of the input, then one of the cotangent.
struct Row {
    float values[COTANGENTS + WIDTH * OUTPUT_PIXEL];
};

struct Stage {
    Row rows[TOGETHER];
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
octant_convolution_gradient(const float* __restrict__ input, const float* __restrict__ cotangent,
                            float* __restrict__ sums, Geometry g) {
    int lane = threadIdx.x, warp = threadIdx.y, pair = warp % PAIRS, share = warp / PAIRS;
    int group = lane / 4, t = lane % 4, thread = 32 * warp + lane;
    int outputs = g.output_channels, output_blocks = outputs / OUTPUTS;
    int block_input = blockIdx.x / output_blocks * INPUTS, block_output = blockIdx.x % output_blocks * OUTPUTS;
    int own_input = pair / OUTPUT_PAIRS * BLOCK, own_output = pair % OUTPUT_PAIRS * BLOCK;

    __shared__ alignas(16) Stage ring[STAGES];
    int columns = (g.output_width + WIDTH - 1) / WIDTH, chunks = (g.output_height + ROWS - 1) / ROWS;
    int jobs = g.pictures * chunks * columns;

    // A thread copies the same places of every row: of the input, or of the cotangent that completes the window.
    const float* sources[COPIES];
    int steps[COPIES], places[COPIES], lows[COPIES], highs[COPIES];
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
        int index = thread + i * THREADS, rest = index - INPUT_COPIES;
        bool is_input = index < INPUT_COPIES;
        places[i] = is_input ? index / INPUT_QUADS * INPUT_PIXEL + index % INPUT_QUADS * 4
                             : COTANGENTS + rest / OUTPUT_QUADS * OUTPUT_PIXEL + rest % OUTPUT_QUADS * 4;
        steps[i] = is_input ? g.input_width * g.channels : g.output_width * outputs;
    }
    int coming = blockIdx.y, coming_step = 0;
    auto aim = [&] {
        int x = coming % columns * WIDTH, first = coming / columns % chunks * ROWS, picture = coming / columns / chunks;
        coming_step = 0;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            int index = thread + i * THREADS, rest = index - INPUT_COPIES;
            bool is_input = index < INPUT_COPIES;
            int pixel = is_input ? index / INPUT_QUADS : rest / OUTPUT_QUADS;
            int channel = 4 * (is_input ? index % INPUT_QUADS : rest % OUTPUT_QUADS);
            int at_x = x + pixel - (is_input ? g.low_x : 0), width = is_input ? g.input_width : g.output_width;
            int at_y = first - (is_input ? g.low_y : SIDE - 1), height = is_input ? g.input_height : g.output_height;
            bool inside = at_x >= 0 && at_x < width && index < ALL_COPIES;
            // The steps at which there is something to copy.
            lows[i] = is_input ? -at_y : SIDE - 1;
            highs[i] = inside ? height - at_y : 0;
            sources[i] = (is_input ? input : cotangent) +
                         (((i64)picture * height + at_y) * width + at_x) * (is_input ? g.channels : outputs) +
                         (is_input ? block_input : block_output) + channel;
        }
    };
    auto start = [&](Stage& stage) {
        if (coming < jobs) {
#pragma unroll
            for (int row = 0; row < TOGETHER; ++row)
#pragma unroll
                for (int i = 0; i < COPIES; ++i) {
                    int step = coming_step + row;
                    bool there = step >= lows[i] && step < highs[i];
                    if (thread + i * THREADS < ALL_COPIES)
                        start_copy(&stage.rows[row].values[places[i]], there ? sources[i] : input, there);
                    sources[i] += steps[i];
                }
            coming_step += TOGETHER;
            if (coming_step == STEPS) {
                coming += gridDim.y;
                if (coming < jobs) aim();
            }
        }
        end_group();
    };
    if (coming < jobs) aim();
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) start(ring[stage]);

    float totals[TAPS][2][4] = {};
    unsigned window[SIDE][SIDE][4];
    int place = 0;
    // A lane takes two neighbouring channels of the pixels t and t + 4.
    int at_input = (share * COLUMN + t) * INPUT_PIXEL + own_input + 2 * group;
    int at_output = COTANGENTS + (share * COLUMN + t) * OUTPUT_PIXEL + own_output + 2 * group;
    for (int job = blockIdx.y; job < jobs; job += gridDim.y) {
#pragma unroll 1
        for (int turn = 0; turn < STEPS; turn += TURN) {
#pragma unroll
            for (int phase = 0; phase < TURN; ++phase) {
                if (phase % TOGETHER == 0) {
                    await_copies<STAGES - 2>();
                    __syncthreads();
                    start(ring[place == 0 ? STAGES - 1 : place - 1]);
                }
                const Row& row = ring[place].rows[phase % TOGETHER];
                auto read = [&](int at) { return *reinterpret_cast<const float2*>(&row.values[at]); };
                if (phase % TOGETHER == TOGETHER - 1) place = place + 1 < STAGES ? place + 1 : 0;
                // The new row takes the place of the oldest one.
#pragma unroll
                for (int tx = 0; tx < SIDE; ++tx) {
                    float2 low = read(at_input + tx * INPUT_PIXEL), high = read(at_input + (tx + 4) * INPUT_PIXEL);
                    auto& last = window[phase % SIDE][tx];
                    last[0] = rounded(low.x), last[1] = rounded(low.y);
                    last[2] = rounded(high.x), last[3] = rounded(high.y);
                }
                // The window of the first rows is not complete.
                if (turn == 0 && phase < SIDE - 1) continue;
                float2 low = read(at_output), high = read(at_output + 4 * OUTPUT_PIXEL);
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
    float4(*others)[2][32] = reinterpret_cast<float4(*)[2][32]>(ring);
    float* own = sums + ((i64)blockIdx.y * TAPS * g.channels + block_input + own_input + 2 * group) * outputs +
                 block_output + own_output + 4 * t;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
        auto& low = totals[tap][0];
        auto& high = totals[tap][1];
        float4 rows[2] = {{low[0], high[0], low[1], high[1]}, {low[2], high[2], low[3], high[3]}};
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (SHARES > 1) {
                __syncthreads();
                others[warp][r][lane] = rows[r];
                __syncthreads();
                for (int other = 1; other < SHARES; ++other) {
                    float4 more = others[(warp + other * PAIRS) % WARPS][r][lane];
                    rows[r] = {rows[r].x + more.x, rows[r].y + more.y, rows[r].z + more.z, rows[r].w + more.w};
                }
            }
            if (share == 0) *reinterpret_cast<float4*>(own + ((i64)tap * g.channels + r) * outputs) = rows[r];
        }
    }
}
