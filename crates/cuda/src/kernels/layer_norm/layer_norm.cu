// Layer norm: the mean of a row, then the mean square of the distances from it, both from registers. EPSILON is a macro.

#include "rows.h"

extern "C" __global__ void __launch_bounds__(256)
octant_layer_norm(const Element* __restrict__ x, const float* __restrict__ scale, const float* __restrict__ shift,
                  Element* __restrict__ result, float* __restrict__ means, float* __restrict__ deviations, int rows) {
    i64 row = (i64)blockIdx.x * ROWS + threadIdx.x / LANES;
    bool there = row < rows;
    row = there ? row : 0;
    float values[PARTS * WIDTH], sum[1] = {0};
    each(x + row * CHANNELS, [&](int i, Element item) { sum[0] += values[i] = wide(item); });
    sum_row(sum);
    float mean = sum[0] / CHANNELS, square[1] = {0};
#pragma unroll
    for (int k = 0; k < PARTS; ++k)
        if (channel(k) >= 0)
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                float distance = values[k * WIDTH + i] -= mean;
                square[0] += distance * distance;
            }
    sum_row(square);
    float deviation = rsqrtf(square[0] / CHANNELS + EPSILON);
    if (!there) return;
    if (threadIdx.x % LANES == 0) {
        means[row] = mean;
        deviations[row] = deviation;
    }
#pragma unroll
    for (int k = 0; k < PARTS; ++k) {
        int first = channel(k);
        if (first < 0) break;
        // As vectors: element by element, the loads of scale and shift alone took twice the time of the rows.
        Vector<float> scales = *(const Vector<float>*)(scale + first), shifts = *(const Vector<float>*)(shift + first);
        Vector<Element> vector;
#pragma unroll
        for (int i = 0; i < WIDTH; ++i)
            vector.items[i] = narrow(values[k * WIDTH + i] * deviation * scales.items[i] + shifts.items[i]);
        *(Vector<Element>*)(result + row * CHANNELS + first) = vector;
    }
}
