// The gradient of layer norm. A block takes every gridDim.x-th group of ROWS rows and keeps the sums for scale and shift in
// registers; at the end its groups of threads add them up one after the other. The blocks' sums are added by the caller.

#include "rows.h"

extern "C" __global__ void __launch_bounds__(256)
octant_layer_norm_gradient(const Element* __restrict__ x, const float* __restrict__ scale, const float* __restrict__ means,
                           const float* __restrict__ deviations, const Element* __restrict__ cotangent,
                           Element* __restrict__ of_x, float* __restrict__ of_scale, float* __restrict__ of_shift, int rows) {
    float scales[PARTS * WIDTH], scale_sums[PARTS * WIDTH] = {}, shift_sums[PARTS * WIDTH] = {};
    each(scale, [&](int i, float item) { scales[i] = item; });
    int group = threadIdx.x / LANES;
    for (i64 first_row = (i64)blockIdx.x * ROWS; first_row < rows; first_row += (i64)gridDim.x * ROWS) {
        i64 row = first_row + group;
        bool there = row < rows;
        row = there ? row : first_row;
        float mean = means[row], deviation = deviations[row];
        float normal[PARTS * WIDTH], given[PARTS * WIDTH], sums[2] = {0, 0};
        each(x + row * CHANNELS, [&](int i, Element item) { normal[i] = (wide(item) - mean) * deviation; });
        each(cotangent + row * CHANNELS, [&](int i, Element item) {
            given[i] = there ? wide(item) : 0.0f;
            scale_sums[i] += given[i] * normal[i];
            shift_sums[i] += given[i];
            given[i] *= scales[i];
            sums[0] += given[i];
            sums[1] += given[i] * normal[i];
        });
        sum_row(sums);
        float center = sums[0] / CHANNELS, projection = sums[1] / CHANNELS;
        if (!there) continue;
#pragma unroll
        for (int k = 0; k < PARTS; ++k) {
            int first = channel(k);
            if (first < 0) break;
            Vector<Element> vector;
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                int at = k * WIDTH + i;
                vector.items[i] = narrow((given[at] - center - normal[at] * projection) * deviation);
            }
            *(Vector<Element>*)(of_x + row * CHANNELS + first) = vector;
        }
    }
    __shared__ float totals[2][CHANNELS];
    for (int turn = 0; turn < ROWS; ++turn) {
        if (turn == group)
#pragma unroll
            for (int k = 0; k < PARTS; ++k) {
                int first = channel(k);
                if (first < 0) break;
#pragma unroll
                for (int i = 0; i < WIDTH; ++i) {
                    int at = k * WIDTH + i, to = first + i;
                    totals[0][to] = (turn ? totals[0][to] : 0.0f) + scale_sums[at];
                    totals[1][to] = (turn ? totals[1][to] : 0.0f) + shift_sums[at];
                }
            }
        __syncthreads();
    }
    for (int to = threadIdx.x; to < CHANNELS; to += THREADS) {
        of_scale[(i64)blockIdx.x * CHANNELS + to] = totals[0][to];
        of_shift[(i64)blockIdx.x * CHANNELS + to] = totals[1][to];
    }
}
