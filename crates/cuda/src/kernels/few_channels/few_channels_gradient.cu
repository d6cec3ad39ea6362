// The gradient of a kernel of few channels. `cotangent` has the size of the convolution's output.
//
// A thread holds a sum for every weight, and loops over pixels of the input, its neighbors over those in the
// next columns. A cotangent that is read once is multiplied with all pixels that the thread holds. Every block writes
// sums of its own, which the program adds up in a fixed order.

#include "window.h"

constexpr int PIXELS = 2, TAPS = SIDE * SIDE, WARPS = 4, ROWS = 4;
using Input = Channels<float, INPUTS>;
using Output = Channels<float, OUTPUTS>;

extern "C" __global__ void __launch_bounds__(WARPS * 32)
octant_few_channels_gradient(const Input* __restrict__ input, const Output* __restrict__ cotangent,
                             float* __restrict__ sums, Geometry g) {
    float totals[TAPS][INPUTS][OUTPUTS] = {};
    int columns = (g.input_width + 31) / 32, chunks = (g.input_height + ROWS - 1) / ROWS;
    int jobs = g.images * columns * chunks;
    for (int job = blockIdx.x * WARPS + threadIdx.y; job < jobs; job += gridDim.x * WARPS) {
        int x = job % columns * 32 + threadIdx.x, first = job / columns % chunks * ROWS;
        int image = job / columns / chunks, end = min(first + ROWS, g.input_height);
        const Input* pixels = input + (i64)image * g.input_height * g.input_width;
        const Output* results = cotangent + (i64)image * g.output_height * g.output_width;
        for (int y = first; y < end; y += PIXELS) {
            Input held[PIXELS];
#pragma unroll
            for (int pixel = 0; pixel < PIXELS; ++pixel) {
                bool there = y + pixel < end && x < g.input_width;
                held[pixel] = there ? pixels[(y + pixel) * g.input_width + x] : Input{};
            }
            // Input pixel p and output pixel p + low - t contribute to tap t.
#pragma unroll
            for (int row = 0; row < PIXELS + SIDE - 1; ++row) {
                int at_y = y + g.low_y - (SIDE - 1) + row;
#pragma unroll
                for (int tx = 0; tx < SIDE; ++tx) {
                    int at_x = x + g.low_x - tx;
                    bool there = at_y >= 0 && at_y < g.output_height && at_x >= 0 && at_x < g.output_width;
                    Output result = there ? results[at_y * g.output_width + at_x] : Output{};
#pragma unroll
                    for (int pixel = 0; pixel < PIXELS; ++pixel) {
                        int ty = SIDE - 1 + pixel - row;
                        if (ty >= 0 && ty < SIDE)
#pragma unroll
                            for (int i = 0; i < INPUTS; ++i)
#pragma unroll
                                for (int o = 0; o < OUTPUTS; ++o)
                                    totals[ty * SIDE + tx][i][o] += held[pixel][i] * result[o];
                    }
                }
            }
        }
    }
    __shared__ float shared[TAPS * INPUTS * OUTPUTS][WARPS];
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap)
#pragma unroll
        for (int i = 0; i < INPUTS; ++i)
#pragma unroll
            for (int o = 0; o < OUTPUTS; ++o) {
                float total = totals[tap][i][o];
                for (int distance = 16; distance > 0; distance /= 2)
                    total += __shfl_xor_sync(0xffffffffu, total, distance);
                if (threadIdx.x == 0) shared[(tap * INPUTS + i) * OUTPUTS + o][threadIdx.y] = total;
            }
    __syncthreads();
    for (int weight = threadIdx.y * 32 + threadIdx.x; weight < TAPS * INPUTS * OUTPUTS; weight += WARPS * 32) {
        float total = 0;
        for (int warp = 0; warp < WARPS; ++warp) total += shared[weight][warp];
        sums[(i64)blockIdx.x * TAPS * INPUTS * OUTPUTS + weight] = total;
    }
}
