// The gradient of a depthwise convolution's kernel. `cotangent` has the size of the convolution's output, and strides
// and dilations are the convolution's own.
//
// A lane owns neighboring channels; the 8 warps of a block and the rows of blocks take turns at rows of pixels. Every
// row of blocks writes sums of its own, which the program adds up: the order of additions is fixed, so that runs repeat
// bit by bit.
//
// NUMBER is bf16 or float, CHANNELS how many a thread reads at once. PLAIN is 1 without strides and holes. Then a warp
// takes two rows at once, and the window of pixels moves by one column, while the other columns stay.

#include "window.h"

constexpr int WARPS = 8, LANES = 32, ROWS = PLAIN ? 2 : 1, LINES = SIDE + ROWS - 1;
using Pixel = Channels<NUMBER, CHANNELS>;

extern "C" __global__ void __launch_bounds__(WARPS* LANES)
octant_depthwise_gradient(const Pixel* __restrict__ input, const Pixel* __restrict__ cotangent,
                          float* __restrict__ sums, Geometry g) {
    int groups = g.channels / CHANNELS, group = blockIdx.x * LANES + threadIdx.x;
    int bands = (g.output_height + ROWS - 1) / ROWS, all = group < groups ? g.images * bands : 0;
    float totals[SIDE][SIDE][CHANNELS] = {};
    for (int band = blockIdx.y * WARPS + threadIdx.y; band < all; band += gridDim.y * WARPS) {
        int image = band / bands, y = band % bands * ROWS;
        const Pixel* pixels = input + (i64)image * g.input_height * g.input_width * groups + group;
        const Pixel* results = cotangent + ((i64)image * g.output_height + y) * g.output_width * groups + group;
        const Pixel* lines[LINES];
        bool inside[LINES];
#pragma unroll
        for (int line = 0; line < LINES; ++line) {
            int from_y = y * g.stride_y + line * g.kernel_dilation_y - g.low_y;
            inside[line] = from_y >= 0 && from_y < g.input_height;
            lines[line] = pixels + from_y * g.input_width * groups;
        }
        auto pixel = [&](int line, int from_x) {
            return inside[line] && from_x >= 0 && from_x < g.input_width ? lines[line][from_x * groups] : Pixel{};
        };
        Pixel window[LINES][SIDE] = {};
        if (PLAIN)
#pragma unroll
            for (int line = 0; line < LINES; ++line)
#pragma unroll
                for (int tx = 1; tx < SIDE; ++tx) window[line][tx] = pixel(line, tx - 1 - g.low_x);
        // Unrolled, so that the next columns are loaded while this one is computed.
#pragma unroll(SIDE == 3 ? 4 : 1)
        for (int x = 0; x < g.output_width; ++x) {
#pragma unroll
            for (int line = 0; line < LINES; ++line)
#pragma unroll
                for (int tx = 0; tx < SIDE; ++tx) {
                    bool known = PLAIN && tx < SIDE - 1;
                    int from_x = PLAIN ? x + tx - g.low_x : x * g.stride_x + tx * g.kernel_dilation_x - g.low_x;
                    window[line][tx] = known ? window[line][(tx + 1) % SIDE] : pixel(line, from_x);
                }
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                bool there = y + row < g.output_height;
                Pixel result = there ? results[(row * g.output_width + x) * groups] : Pixel{};
#pragma unroll
                for (int tap = 0; tap < SIDE * SIDE; ++tap)
#pragma unroll
                    for (int i = 0; i < CHANNELS; ++i)
                        totals[tap / SIDE][tap % SIDE][i] += window[row + tap / SIDE][tap % SIDE][i] * result[i];
            }
        }
    }
    __shared__ float shared[WARPS][LANES * CHANNELS];
    int slot = threadIdx.y * LANES + threadIdx.x, channel = blockIdx.x * LANES * CHANNELS + slot;
#pragma unroll
    for (int tap = 0; tap < SIDE * SIDE; ++tap) {
        for (int i = 0; i < CHANNELS; ++i)
            shared[threadIdx.y][threadIdx.x * CHANNELS + i] = totals[tap / SIDE][tap % SIDE][i];
        __syncthreads();
        if (slot < LANES * CHANNELS && channel < g.channels) {
            float total = 0;
            for (int warp = 0; warp < WARPS; ++warp) total += shared[warp][slot];
            sums[((i64)blockIdx.y * SIDE * SIDE + tap) * g.channels + channel] = total;
        }
        __syncthreads();
    }
}
