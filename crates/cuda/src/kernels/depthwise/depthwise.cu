// A depthwise convolution over channels-last images, or its gradient with respect to the input, which is one too.
//
// A thread owns 16 bytes of neighboring channels, so that a warp reads whole lines of memory, and sums in f32. The
// work is bound by memory: the loops only have to take each value from the caches few enough times.
//
// NUMBER is bf16 or float, CHANNELS how many a thread reads at once. PLAIN is 1 without strides and holes. Then a thread
// computes four adjacent output pixels, which share what they read.

#include "window.h"

constexpr int PIXELS = PLAIN ? 4 : 1;
using Pixel = Channels<NUMBER, CHANNELS>;

// The source index of `position` in a dilated row of `length` values; -1 between values and outside.
__device__ __forceinline__ int source(int position, int dilation, int length) {
    if (!PLAIN && dilation > 1) {
        if (position % dilation != 0) return -1;
        position /= dilation;
    }
    return position < length ? position : -1;
}

extern "C" __global__ void __launch_bounds__(256)
octant_depthwise(const Pixel* __restrict__ input, const Pixel* __restrict__ kernel, Pixel* __restrict__ output,
                 Geometry g) {
    // Unsigned numbers of 32 bits: divisions are a good part of the work.
    unsigned groups = g.channels / CHANNELS, strips = (g.output_width + PIXELS - 1) / PIXELS;
    unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned group = index % groups, strip = index / groups, row = strip / strips;
    int x = strip % strips * PIXELS, y = row % (unsigned)g.output_height;
    unsigned image = row / (unsigned)g.output_height;
    if (image >= g.images) return;
    input += (i64)image * g.input_height * g.input_width * groups + group;
    Pixel weights[SIDE * SIDE];
#pragma unroll
    for (int tap = 0; tap < SIDE * SIDE; ++tap)
        weights[tap] = kernel[(g.reversed ? SIDE * SIDE - 1 - tap : tap) * groups + group];
    float sums[PIXELS][CHANNELS] = {};
#pragma unroll
    for (int ty = 0; ty < SIDE; ++ty) {
        int from_y = source(y * (PLAIN ? 1 : g.stride_y) + ty * (PLAIN ? 1 : g.kernel_dilation_y) - g.low_y,
                            g.input_dilation_y, g.input_height);
        Pixel pixels[PIXELS + SIDE - 1];
#pragma unroll
        for (int i = 0; i < PIXELS + SIDE - 1; ++i) {
            int from_x = source(x * (PLAIN ? 1 : g.stride_x) + i * (PLAIN ? 1 : g.kernel_dilation_x) - g.low_x,
                                g.input_dilation_x, g.input_width);
            bool there = from_y >= 0 && from_x >= 0;
            pixels[i] = there ? input[(from_y * g.input_width + from_x) * groups] : Pixel{};
        }
#pragma unroll
        for (int tx = 0; tx < SIDE; ++tx)
#pragma unroll
            for (int s = 0; s < PIXELS; ++s)
#pragma unroll
                for (int i = 0; i < CHANNELS; ++i)
                    sums[s][i] += pixels[s + tx][i] * weights[ty * SIDE + tx][i];
    }
    output += ((i64)row * g.output_width + x) * groups + group;
#pragma unroll
    for (int s = 0; s < PIXELS; ++s)
        if (x + s < g.output_width) output[s * groups] = Pixel::from(sums[s]);
}
