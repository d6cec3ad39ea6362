// The gradient of layer norm. A block takes every gridDim.x-th group of ROWS rows and keeps the sums for scale and shift in
// registers; at the end its groups of threads add them up one after the other. The blocks' sums are added by the caller.

#include "rows.h"

// Two blocks of a multiprocessor work at once, so that one's loads hide the other's sums. To leave registers for that, rows
// are kept as they came and widened twice, and the scale is read from shared memory where it is needed.
extern "C" __global__ void __launch_bounds__(256, 2)
octant_layer_norm_gradient(const Element* __restrict__ x, const float* __restrict__ scale, const float* __restrict__ means,
                           const float* __restrict__ deviations, const Element* __restrict__ cotangent,
                           Element* __restrict__ of_x, float* __restrict__ of_scale, float* __restrict__ of_shift, int rows) {
    __shared__ __align__(16) float totals[2][CHANNELS];
    float* scales = totals[0];  // until the rows are done
    for (int at = threadIdx.x; at < CHANNELS; at += THREADS) scales[at] = scale[at];
    __syncthreads();
    float scale_sums[PARTS * WIDTH] = {}, shift_sums[PARTS * WIDTH] = {};
    int group = threadIdx.x / LANES;
    for (i64 first_row = (i64)blockIdx.x * ROWS; first_row < rows; first_row += (i64)gridDim.x * ROWS) {
        i64 row = first_row + group;
        bool there = row < rows;
        row = there ? row : first_row;
        Element xs[PARTS * WIDTH], cotangents[PARTS * WIDTH];
        each(x + row * CHANNELS, [&](int i, Element item) { xs[i] = item; });
        each(cotangent + row * CHANNELS, [&](int i, Element item) { cotangents[i] = item; });
        float mean = means[row], deviation = deviations[row], sums[2] = {0, 0};
        auto normal = [&](int at) { return (wide(xs[at]) - mean) * deviation; };
        auto given = [&](int at) { return there ? wide(cotangents[at]) : 0.0f; };
        // The compiler would move loads out of the loop and keep them in registers.
        asm volatile("" ::: "memory");
        each(scales, [&](int at, float scale) {
            scale_sums[at] += given(at) * normal(at);
            shift_sums[at] += given(at);
            sums[0] += given(at) * scale;
            sums[1] += given(at) * scale * normal(at);
        });
        sum_row(sums);
        float center = sums[0] / CHANNELS, projection = sums[1] / CHANNELS;
        if (!there) continue;
#pragma unroll
        for (int k = 0; k < PARTS; ++k) {
            int first = channel(k);
            if (first < 0) break;
            Vector<float> scale = *(const Vector<float>*)(scales + first);
            Vector<Element> vector;
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                int at = k * WIDTH + i;
                vector.items[i] = narrow((given(at) * scale.items[i] - center - normal(at) * projection) * deviation);
            }
            *(Vector<Element>*)(of_x + row * CHANNELS + first) = vector;
        }
    }
    __syncthreads();
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
