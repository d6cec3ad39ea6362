// A plain convolution on tensor cores, for channels in sixteens, or its gradient with respect to the input.
//
// A block makes OUTPUTS output channels, whose weights it keeps in shared memory in the order in which lanes want them. A
// warp walks down a column of pixels. A row of the input belongs to SIDE rows of the output, whose sums stay in
// registers until they are complete, so each row is read once. Rows come through a ring of the warp's own in shared memory,
// so that several are in flight at once. The lane that copied four numbers converts them to f16.
//
// The weights are the left operand of the products and the pixels the right one: a lane's four channels of a pixel are
// then an operand as they are.
//
// INPUTS is the number of input channels. A block has WARPS warps. A warp's column is EIGHTS times eight pixels wide, and as
// high as the images divided by the grid's depth; STAGES rows are in flight, and RESIDENT blocks share a processor.
// TRANSPOSED is 1 if the kernel holds a row of input channels for every output channel, as it does for the gradient.
//
// A pointwise convolution may be computed too, whose kernel is one tap in the middle. If BESIDE is 1 it reads the same input and
// has a result of its own; if ADDED is 1 it reads a second input and its result is added. It has as many channels.
//
// If NORM_RELU is 1 the input is still to be multiplied by a factor per channel, shifted by an offset, and put through a ReLU.
// If MOMENTS is 1 every warp writes for its channels how many pixels it made, the first of them as a shift, and the sums of
// the distances from that and of their squares.
//
// If COTANGENT is 1 the output is the cotangent of a fused norm + ReLU: it becomes zero where the norm was not positive, and
// every warp writes its sums and those of its products with what was normalized. See cotangent.h.

#include "convolution.h"
#include "tally.h"
#include "cotangent.h"

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
octant_convolution(const float* __restrict__ input, const float* __restrict__ kernel,
#if NORM_RELU
                   const float* __restrict__ factors, const float* __restrict__ offsets,
#endif
#if ADDED
                   const float* __restrict__ second,
#endif
#if BESIDE || ADDED
                   const float* __restrict__ pointwise,
#endif
#if COTANGENT
                   const float* __restrict__ normed, const float* __restrict__ norm_factors,
                   const float* __restrict__ norm_offsets, const float* __restrict__ center_offsets,
#endif
                   float* __restrict__ output,
#if BESIDE
                   float* __restrict__ beside,
#endif
#if MOMENTS
                   float* __restrict__ moments,
#endif
#if BESIDE && MOMENTS
                   float* __restrict__ moments_beside,
#endif
#if COTANGENT
                   float* __restrict__ cotangent_sums,
#endif
                   Geometry g) {
#if !COTANGENT
    const float *normed = nullptr, *norm_factors = nullptr, *norm_offsets = nullptr, *center_offsets = nullptr;
    float* cotangent_sums = nullptr;
#endif
#if !MOMENTS
    float* moments = nullptr;
#endif
#if !BESIDE || !MOMENTS
    float* moments_beside = nullptr;
#endif
#if !BESIDE
    float* beside = nullptr;
#endif
#if !BESIDE && !ADDED
    const float* pointwise = nullptr;
#endif
#if !ADDED
    const float* second = nullptr;
#endif
#if !NORM_RELU
    const float *factors = nullptr, *offsets = nullptr;
#endif
    int lane = threadIdx.x, warp = threadIdx.y, group = lane / 4, t = lane % 4, outputs = g.output_channels;
    extern __shared__ uint4 memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    Copied* ring = shared.ring[warp];
    Row& row = shared.rows[warp];

    int columns = (g.output_width + COLUMN - 1) / COLUMN, rows = (g.output_height + gridDim.z - 1) / gridDim.z;
    int job = blockIdx.x * WARPS + warp, image = job / columns, column = job % columns * COLUMN;
    int first = blockIdx.z * rows, end = min(first + rows, g.output_height);
    // A lane copies the same pixels of every row.
    i64 source = ((i64)image * g.input_height + first - g.low_y) * g.input_width + column - g.low_x + group;
    bool inside[COPIES];
#pragma unroll
    for (int copy = 0; copy < COPIES; ++copy) {
        int pixel = 8 * copy + group, at_x = column - g.low_x + pixel;
        inside[copy] = image < g.images && pixel < WIDE && at_x >= 0 && at_x < g.input_width;
    }
    int started_y = first - g.low_y, started_block = 0;
    auto start = [&](Copied& to) {
        unsigned address = shared_address(&to.quads[0][lane]);
        bool there = (unsigned)started_y < g.input_height && started_y < end + SIDE - 1 - g.low_y;
        bool in_first = started_block < BLOCKS;
        const float* from = (in_first ? input : second) + source * INPUTS + 4 * t +
            (in_first ? started_block : started_block - BLOCKS) * BLOCK;
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy)
            start_copy(address + sizeof(to.quads[0]) * copy, from + 8 * copy * INPUTS, there && inside[copy] ? 16 : 0);
        end_group();
        if (++started_block == ALL_BLOCKS) started_block = 0, ++started_y, source += g.input_width;
    };
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) start(ring[step]);
    if (NORM_RELU)
        for (int quad = 32 * warp + lane; quad < INPUTS / 4; quad += THREADS) {
            shared.factors[quad / 4][quad % 4] = reinterpret_cast<const float4*>(factors)[quad];
            shared.offsets[quad / 4][quad % 4] = reinterpret_cast<const float4*>(offsets)[quad];
        }
    Scale weight_scale = load_weights(shared, kernel, pointwise, g);
    if (image >= g.images) return;
    Cotangent cotangent;
    if (COTANGENT) cotangent.begin(norm_factors, norm_offsets, center_offsets);
    uint4 kept[TAPS];
    if (KEPT)
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap) kept[tap] = shared.weights[tap][0].lanes[lane];

    // The numbers that a lane copied of a row's 16 channels, ready to be used.
    auto load = [&](float4 (&own)[COPIES], const Copied& copied, int block, int y) {
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy) own[copy] = copied.quads[copy][lane];
        if (!NORM_RELU) return;
        float4 factor = shared.factors[block][t], offset = shared.offsets[block][t];
        bool there = (unsigned)(y - g.low_y) < g.input_height;
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy)
            own[copy] = there && inside[copy] ? norm_relu_of(own[copy], factor, offset) : float4{};
    };
    Scale scale;
    // Makes f16 numbers of them. Returns whether the scale was too great.
    auto convert = [&](const float4 (&own)[COPIES]) {
        unsigned most = 0;
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy) {
            uint2 four = scale.apply(own[copy]);
            most = greater(greater(most, four.x), four.y);
            row.pixels[8 * copy + group][t] = four;
        }
        return overflows(most);
    };

    int slot = 0;
    float totals[SIDE][EIGHTS][GROUPS][4] = {}, points[EIGHTS][GROUPS][4] = {};
    // Waits for a row's next 16 channels, and starts to copy others over those before them.
    auto next_row = [&](int block, int y) {
        await_copies<STAGES - 2>();
        __syncwarp();
        float4 own[COPIES];
        load(own, ring[slot], block, y);
        if (__any_sync(~0u, convert(own))) {
            unsigned most = 0;
#pragma unroll
            for (int copy = 0; copy < COPIES; ++copy) most = max(most, magnitude(own[copy]));
            most = __reduce_max_sync(~0u, most);
            if (!scale.suffices(most)) {
                Scale next = Scale::of(most);
                float change = scale.change(next);
                scale = next;
#pragma unroll
                for (int i = 0; i < SIDE * EIGHTS * GROUPS * 4; ++i) (&totals[0][0][0][0])[i] *= change;
#pragma unroll
                for (int i = 0; i < EIGHTS * GROUPS * 4; ++i) (&points[0][0][0])[i] *= change;
                convert(own);
            }
        }
        __syncwarp();
        start(ring[slot == 0 ? STAGES - 1 : slot - 1]);
        slot = slot + 1 < STAGES ? slot + 1 : 0;
    };
    // A lane takes four neighboring channels of the pixel g of every eight.
    auto operand = [&](uint2 (&right)[EIGHTS], int tx) {
#pragma unroll
        for (int e = 0; e < EIGHTS; ++e) right[e] = row.pixels[8 * e + group + tx][t];
    };
    auto multiply = [&](float (&sums)[EIGHTS][GROUPS][4], int m, uint4 weight, const uint2 (&right)[EIGHTS]) {
        unsigned left[4] = {weight.x, weight.y, weight.z, weight.w};
#pragma unroll
        for (int e = 0; e < EIGHTS; ++e) add_product(sums[e][m], left, right[e].x, right[e].y);
    };
    Tally own_tally, other_tally;
    auto take = [&](Tally& tally, const float (&sums)[EIGHTS][GROUPS][4], int y) {
        if (y < first || y >= end) return;
        tally.take(sums, 1 / (scale.factor * weight_scale.factor), y == first, g.output_width - column);
    };
    // A lane has two or four neighboring channels of the pixels 2t and 2t + 1 of every eight. The sums begin anew.
    i64 result = ((i64)image * g.output_height * g.output_width + column + 2 * t) * outputs + blockIdx.y * OUTPUTS;
    auto write = [&](float* to, float (&sums)[EIGHTS][GROUPS][4], int y) {
        float back = 1 / (scale.factor * weight_scale.factor);
        to += result + (i64)y * g.output_width * outputs;
#pragma unroll
        for (int i = 0; i < EIGHTS * 2; ++i) {
            int e = i / 2, next = i % 2;
            if (y < first || y >= end || column + 8 * e + 2 * t + next >= g.output_width) continue;
#pragma unroll
            for (int m = 0; m < GROUPS; m += 2) {
                auto& a = sums[e][m];
                auto& b = sums[e][m + 1 < GROUPS ? m + 1 : m];
                float* here = to + (8 * e + next) * outputs + first_output(group, m);
                if (m + 1 < GROUPS)
                    *reinterpret_cast<float4*>(here) = {a[next] * back, a[next + 2] * back, b[next] * back,
                                                        b[next + 2] * back};
                else
                    *reinterpret_cast<float2*>(here) = {a[next] * back, a[next + 2] * back};
            }
        }
#pragma unroll
        for (int i = 0; i < EIGHTS * GROUPS * 4; ++i) (&sums[0][0][0])[i] = 0;
    };
    // The input row at y belongs to the output rows y - SIDE + 1 to y. Their sums stay where they are: which of them a row
    // of the input meets is known to the compiler.
    for (int turn = first; turn < end + SIDE - 1; turn += SIDE) {
#pragma unroll
        for (int phase = 0; phase < SIDE; ++phase) {
            int y = turn + phase;
            if (y >= end + SIDE - 1) break;
            auto& middle = totals[(phase + SIDE - 1 - MIDDLE) % SIDE];
            // The row that will be complete. Its copy was started several rows before.
            int done = y - SIDE + 1;
            if (COTANGENT && done >= first)
                cotangent.read(normed + result + (i64)done * g.output_width * outputs, outputs,
                               g.output_width - column);
#pragma unroll (BLOCKS > 2 || NORM_RELU ? 1 : BLOCKS)
            for (int block = 0; block < BLOCKS; ++block) {
                next_row(block, y);
#pragma unroll
                for (int tx = 0; tx < SIDE; ++tx) {
                    uint2 right[EIGHTS];
                    operand(right, tx);
#pragma unroll
                    for (int i = 0; i < SIDE * GROUPS; ++i) {
                        int ty = i / GROUPS, m = i % GROUPS, tap = ty * SIDE + tx;
                        uint4 weight = KEPT ? kept[tap] : shared.weights[tap * BLOCKS + block][m].lanes[lane];
                        multiply(totals[(phase + SIDE - 1 - ty) % SIDE], m, weight, right);
                    }
                    if (BESIDE && tx == MIDDLE)
#pragma unroll
                        for (int m = 0; m < GROUPS; ++m)
                            multiply(points, m, shared.weights[TAPS * BLOCKS + block][m].lanes[lane], right);
                }
            }
            for (int block = 0; block < BLOCKS * ADDED; ++block) {
                next_row(block, y);
                uint2 right[EIGHTS];
                operand(right, MIDDLE);
#pragma unroll
                for (int m = 0; m < GROUPS; ++m)
                    multiply(middle, m, shared.weights[TAPS * BLOCKS + block][m].lanes[lane], right);
            }
            if (COTANGENT && done >= first)
                cotangent.take(totals[phase], 1 / (scale.factor * weight_scale.factor), g.output_width - column);
            if (MOMENTS) take(own_tally, totals[phase], done);
            if (MOMENTS && BESIDE) take(other_tally, points, y - MIDDLE);
            write(output, totals[phase], done);
            if (BESIDE) write(beside, points, y - MIDDLE);
        }
    }
    i64 part = ((i64)image * columns + job % columns) * gridDim.z + blockIdx.z;
    if (MOMENTS) own_tally.write(moments + part * 4 * outputs, outputs);
    if (MOMENTS && BESIDE) other_tally.write(moments_beside + part * 4 * outputs, outputs);
    if (COTANGENT) cotangent.write(cotangent_sums + part * 2 * outputs, outputs);
}
