// The gradient of a plain convolution's kernel on tensor cores, for channels in sixteens.
//
// A warp owns 16 input and 16 output channels at all taps: the sums over pixels stay in its registers. It walks down
// a column of 16 pixels, which are the inner indices of the products. A row of the input meets SIDE rows of the
// cotangent, so the rows of the window move up, and only one is read.
//
// INPUT_PAIRS * OUTPUT_PAIRS warps of a block own different channels of the same pixels, SHARES different columns. Rows
// come through a ring in shared memory, two at once, so that several are in flight, also those of the next column. The
// thread that copied four numbers makes f16 numbers of them. Every row of blocks takes an even share of all rows of pixels
// and writes sums of its own, which the program adds up in a fixed order.
//
// If BESIDE is 1 a pointwise convolution reads the same input, whose kernel is one tap in the middle. It has as many output
// channels, a cotangent and sums of its own.
//
// If NORM_RELU is 1 the input is still to be multiplied by a factor per channel, shifted by an offset, and put through a ReLU.

#include "convolution_gradient.h"

using Inputs = Copies<WIDE, INPUTS>;
using Cotangents = Copies<WIDTH, OUTPUTS>;

constexpr int RESULTS = 1 + BESIDE, MIDDLE = SIDE / 2;

struct Row {
    Halves<WIDE, INPUTS> input;
    Halves<WIDTH, OUTPUTS> cotangents[RESULTS];
};

struct Stage {
    Inputs::Copied inputs[TOGETHER];
    Cotangents::Copied cotangents[RESULTS][TOGETHER];
};

struct Shared {
    Stage ring[STAGES];
    // One is written while the other is read.
    Row rows[2][TOGETHER];
    float4 factors[INPUTS / 4], offsets[INPUTS / 4];
    unsigned most_input, most_cotangent;
};

// 16 channels of 16 pixels as an operand whose inner indices are the pixels: `at` is this lane's row of eight channels.
__device__ __forceinline__ void load_operand(unsigned (&operand)[4], unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(operand[0]), "=r"(operand[1]), "=r"(operand[2]), "=r"(operand[3])
                 : "r"(at));
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
octant_convolution_gradient(const float* __restrict__ input, const float* __restrict__ cotangent,
#if NORM_RELU
                            const float* __restrict__ factors, const float* __restrict__ offsets,
#endif
#if BESIDE
                            const float* __restrict__ pointwise_cotangent,
#endif
                            float* __restrict__ sums,
#if BESIDE
                            float* __restrict__ pointwise_sums,
#endif
                            Geometry g) {
#if !BESIDE
    const float* pointwise_cotangent = nullptr;
    float* pointwise_sums = nullptr;
#endif
#if !NORM_RELU
    const float *factors = nullptr, *offsets = nullptr;
#endif
    int lane = threadIdx.x, warp = threadIdx.y, pair = warp % PAIRS, share = warp / PAIRS, group = lane / 4, t = lane % 4;
    int outputs = g.output_channels, output_blocks = outputs / OUTPUTS;
    int block_input = blockIdx.x / output_blocks * INPUTS, block_output = blockIdx.x % output_blocks * OUTPUTS;
    int own_input = pair / OUTPUT_PAIRS * BLOCK, own_output = pair % OUTPUT_PAIRS * BLOCK;
    extern __shared__ uint4 memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);

    // The rows of all columns, one column below the other. A span is what a block takes of a column.
    int height = g.output_height, columns = (g.output_width + WIDTH - 1) / WIDTH, all = g.images * columns * height;
    int each = (all + gridDim.y - 1) / gridDim.y, begin = min(each * (int)blockIdx.y, all), end = min(begin + each, all);
    auto span = [&](int from) { return min(height - from % height, end - from); };

    Inputs inputs(g.input_width, g.channels);
    Cotangents cotangents(g.output_width, outputs);
    // The other cotangent has the same shape.
    i64 between = pointwise_cotangent - cotangent;
    // The rows of the input that a span of cotangents meets begin SIDE - 1 rows before those that complete the window.
    int coming = begin, coming_y = 0, coming_step = 0, coming_steps = 0;
    auto start = [&](Stage& stage) {
        if (coming_step >= coming_steps && coming < end) {
            int image = coming / height / columns, x = coming / height % columns * WIDTH;
            coming_y = coming % height, coming_step = 0, coming_steps = span(coming) + SIDE - 1;
            inputs.aim(input + block_input + (i64)image * g.input_height * g.input_width * inputs.channels,
                       coming_y - g.low_y, x - g.low_x);
            cotangents.aim(cotangent + (i64)image * height * g.output_width * outputs + block_output,
                           coming_y - (SIDE - 1), x);
            coming += span(coming);
        }
        if (coming_step < coming_steps)
#pragma unroll
            for (int row = 0; row < TOGETHER; ++row, ++coming_step) {
                inputs.start(stage.inputs[row], (unsigned)(coming_y - g.low_y + coming_step) < g.input_height);
                bool there = coming_step >= SIDE - 1 && coming_step < coming_steps;
#pragma unroll
                for (int result = 0; result < RESULTS; ++result)
                    cotangents.start(stage.cotangents[result][row], there, result * between);
                cotangents.next();
                inputs.next();
            }
        end_group();
    };
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) start(shared.ring[stage]);

    if (NORM_RELU) {
        for (int quad = inputs.thread; quad < INPUTS / 4; quad += THREADS) {
            shared.factors[quad] = reinterpret_cast<const float4*>(factors + block_input)[quad];
            shared.offsets[quad] = reinterpret_cast<const float4*>(offsets + block_input)[quad];
        }
        __syncthreads();
    }

    // The slot of the row that comes next.
    int at_x = 0, at_y = 0;
    auto load = [&](float4 (&own)[Inputs::COUNT], const Stage& stage, int row) {
        inputs.load(own, stage.inputs[row]);
        bool there = (unsigned)(at_y + row) < g.input_height;
        if (NORM_RELU) inputs.norm_relu(own, at_x, there, shared.factors, shared.offsets);
    };
    Scale input_scale, cotangent_scale;
    // The pointwise kernel is one more tap.
    float totals[TAPS + BESIDE][2][4] = {};
    unsigned window[SIDE][SIDE][4] = {};
    // Makes f16 numbers of a stage. Returns whether a scale was too great.
    auto convert = [&](const Stage& stage, Row (&rows)[TOGETHER]) {
        float4 own_inputs[TOGETHER][Inputs::COUNT], own_cotangents[TOGETHER][RESULTS][Cotangents::COUNT];
#pragma unroll
        for (int row = 0; row < TOGETHER; ++row) {
            load(own_inputs[row], stage, row);
#pragma unroll
            for (int result = 0; result < RESULTS; ++result)
                cotangents.load(own_cotangents[row][result], stage.cotangents[result][row]);
        }
        unsigned most = 0;
#pragma unroll
        for (int row = 0; row < TOGETHER; ++row) {
            most = inputs.convert(rows[row].input, own_inputs[row], input_scale, most);
#pragma unroll
            for (int result = 0; result < RESULTS; ++result)
                most = cotangents.convert(rows[row].cotangents[result], own_cotangents[row][result], cotangent_scale, most);
        }
        return overflows(most);
    };
    // Finds the scales anew. All that was made with the old ones follows.
    auto rescale = [&](const Stage& stage) {
        shared.most_input = shared.most_cotangent = 0;
        __syncthreads();
        for (int row = 0; row < TOGETHER; ++row) {
            float4 own_inputs[Inputs::COUNT], own_cotangents[Cotangents::COUNT];
            load(own_inputs, stage, row);
            for (auto& four : own_inputs) atomicMax(&shared.most_input, magnitude(four));
            for (auto& copied : stage.cotangents) {
                cotangents.load(own_cotangents, copied[row]);
                for (auto& four : own_cotangents) atomicMax(&shared.most_cotangent, magnitude(four));
            }
        }
        __syncthreads();
        float change = 1;
        if (!input_scale.suffices(shared.most_input)) {
            Scale next = Scale::of(shared.most_input);
            change = input_scale.change(next);
            unsigned both = halves(change, change);
#pragma unroll
            for (int i = 0; i < SIDE * SIDE * 4; ++i) (&window[0][0][0])[i] = times((&window[0][0][0])[i], both);
            input_scale = next;
        }
        if (!cotangent_scale.suffices(shared.most_cotangent)) {
            Scale next = Scale::of(shared.most_cotangent);
            change *= cotangent_scale.change(next);
            cotangent_scale = next;
        }
#pragma unroll
        for (int i = 0; i < (TAPS + BESIDE) * 8; ++i) (&totals[0][0][0])[i] *= change;
    };

    // Of the left operand a lane's row is the pixel `lane % 8`, plus 8 for the upper half of the lanes; of the right one it
    // is the channels that the upper half has eight further.
    int pixel = share * COLUMN + lane % 8, odd = lane / 8 % 2 * 8, upper = lane / 16 * 8;
    unsigned at_input = shared_address(&shared.rows[0][0].input.values[pixel + upper][own_input + odd]);
    unsigned at_output = shared_address(&shared.rows[0][0].cotangents[0].values[pixel + odd][own_output + upper]);
    int slot = 0, side = 0;
    for (int from = begin; from < end; from += span(from)) {
        int steps = span(from) + SIDE - 1;
        at_x = from / height % columns * WIDTH - g.low_x, at_y = from % height - g.low_y;
#pragma unroll 1
        for (int turn = 0; turn < steps; turn += TURN) {
#pragma unroll
            for (int phase = 0; phase < TURN; ++phase) {
                int r = phase % TOGETHER;
                if (r == 0) {
                    if (turn + phase >= steps) break;
                    await_copies<STAGES - 2>();
                    const Stage& stage = shared.ring[slot];
                    if (__syncthreads_or(convert(stage, shared.rows[side]))) {
                        rescale(stage);
                        convert(stage, shared.rows[side]);
                        __syncthreads();
                    }
                    at_y += TOGETHER;
                }
                // The new row overwrites the oldest one.
                unsigned row = side * sizeof(shared.rows[0]) + r * sizeof(Row);
#pragma unroll
                for (int tx = 0; tx < SIDE; ++tx)
                    load_operand(window[phase % SIDE][tx], at_input + row + tx * sizeof(shared.rows[0][0].input.values[0]));
                unsigned right[RESULTS][4];
#pragma unroll
                for (int result = 0; result < RESULTS; ++result)
                    load_operand(right[result], at_output + row + result * sizeof(shared.rows[0][0].cotangents[0]));
                if (r == 0) {
                    start(shared.ring[slot == 0 ? STAGES - 1 : slot - 1]);
                    slot = slot + 1 < STAGES ? slot + 1 : 0;
                }
                if (r == TOGETHER - 1) side ^= 1;
                // The window of the first rows is not complete.
                if (turn == 0 && phase < SIDE - 1) continue;
#pragma unroll
                for (int tap = 0; tap < TAPS + BESIDE; ++tap) {
                    int result = tap / TAPS, at = result ? MIDDLE * SIDE + MIDDLE : tap;
#pragma unroll
                    for (int j = 0; j < 2; ++j)
                        add_product(totals[tap][j], window[(phase + 1 + at / SIDE) % SIDE][at % SIDE],
                                    right[result][2 * j], right[result][2 * j + 1]);
                }
            }
        }
    }

    // A lane holds the input channels g and g + 8 at the output channels 2t, 2t + 1, and those eight further.
    float back = 1 / input_scale.factor, cotangent_back = 1 / cotangent_scale.factor;
    float2(*others)[4][32] = reinterpret_cast<float2(*)[4][32]>(memory);
    int own = (block_input + own_input + group) * outputs + block_output + own_output + 2 * t;
#pragma unroll
    for (int tap = 0; tap < TAPS + BESIDE; ++tap) {
        i64 matrix = tap == TAPS ? blockIdx.y : (i64)blockIdx.y * TAPS + tap;
        float* to = (tap == TAPS ? pointwise_sums : sums) + matrix * g.channels * outputs + own;
        float2 found[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) found[i] = {totals[tap][i / 2][i % 2 * 2], totals[tap][i / 2][i % 2 * 2 + 1]};
        if (SHARES > 1) {
            __syncthreads();
#pragma unroll
            for (int i = 0; i < 4; ++i) others[warp][i][lane] = found[i];
            __syncthreads();
        }
        if (share != 0) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            for (int other = 1; other < SHARES; ++other) {
                float2 more = others[warp + other * PAIRS][i][lane];
                found[i] = {found[i].x + more.x, found[i].y + more.y};
            }
            *reinterpret_cast<float2*>(to + i % 2 * 8 * outputs + i / 2 * 8) = {
                found[i].x * back * cotangent_back, found[i].y * back * cotangent_back};
        }
    }
}
