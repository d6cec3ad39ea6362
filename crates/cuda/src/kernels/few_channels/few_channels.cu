// A plain convolution of few channels into few, or its gradient with respect to the input.
//
// A thread walks down a band of the image in strips of four pixels, its neighbors in the next columns. A pixel that is read
// once adds to all pixels of a strip, with weights that stay in registers: INPUTS * OUTPUTS * SIDE * SIDE of them. The
// grid's depth is the number of bands.
//
// TRANSPOSED is 1 if the kernel holds a row of input channels for every output channel, as it does for the gradient.

#include "window.h"

constexpr int PIXELS = 4, TAPS = SIDE * SIDE;
using Input = Channels<float, INPUTS>;
using Output = Channels<float, OUTPUTS>;

extern "C" __global__ void __launch_bounds__(128)
octant_few_channels(const Input* __restrict__ input, const float* __restrict__ kernel, Output* __restrict__ output,
                    Geometry g) {
    float weights[TAPS][INPUTS][OUTPUTS];
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap)
#pragma unroll
        for (int i = 0; i < INPUTS; ++i)
#pragma unroll
            for (int o = 0; o < OUTPUTS; ++o) {
                int read = g.reversed ? TAPS - 1 - tap : tap;
                weights[tap][i][o] = kernel[read * INPUTS * OUTPUTS + (TRANSPOSED ? o * INPUTS + i : i * OUTPUTS + o)];
            }
    unsigned index = blockIdx.x * blockDim.x + threadIdx.x, image = index / g.output_width;
    int x = index % g.output_width, rows = (g.output_height + gridDim.z - 1) / gridDim.z, first = blockIdx.z * rows;
    int end = min(first + rows, g.output_height);
    if (image >= g.images) return;
    input += (i64)image * g.input_height * g.input_width;
    output += (i64)image * g.output_height * g.output_width + x;
    for (int y = first; y < end; y += PIXELS) {
        float sums[PIXELS][OUTPUTS] = {};
#pragma unroll
        for (int row = 0; row < PIXELS + SIDE - 1; ++row) {
            int from_y = y + row - g.low_y;
            Input pixels[SIDE];
#pragma unroll
            for (int tx = 0; tx < SIDE; ++tx) {
                int from_x = x + tx - g.low_x;
                bool there = from_y >= 0 && from_y < g.input_height && from_x >= 0 && from_x < g.input_width;
                pixels[tx] = there ? input[from_y * g.input_width + from_x] : Input{};
            }
#pragma unroll
            for (int pixel = 0; pixel < PIXELS; ++pixel)
                if (row >= pixel && row - pixel < SIDE)
#pragma unroll
                    for (int tx = 0; tx < SIDE; ++tx)
#pragma unroll
                        for (int i = 0; i < INPUTS; ++i)
#pragma unroll
                            for (int o = 0; o < OUTPUTS; ++o)
                                sums[pixel][o] += pixels[tx][i] * weights[(row - pixel) * SIDE + tx][i][o];
        }
#pragma unroll
        for (int pixel = 0; pixel < PIXELS; ++pixel)
            if (y + pixel < end) output[(y + pixel) * g.output_width] = Output::from(sums[pixel]);
    }
}
