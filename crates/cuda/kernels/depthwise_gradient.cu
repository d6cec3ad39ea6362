// The gradient of a depthwise convolution's kernel. `cotangent` has the size of the convolution's output, and strides
// and dilations are the convolution's own.
//
// A lane owns neighbouring channels; the 8 warps of a block and the rows of blocks take turns at rows of pixels. Every
// row of blocks writes sums of its own, which the program adds up: the order of additions is fixed, so that runs repeat
// bit by bit.
//
// PLAIN is 1 without strides and holes. Then the window of pixels moves by one column, and the other columns stay.

#include "depthwise.h"

constexpr int WARPS = 8, LANES = 32;
using Pixel = Channels<NUMBER, CHANNELS>;

extern "C" __global__ void __launch_bounds__(WARPS* LANES)
octant_depthwise_gradient(const Pixel* __restrict__ input, const Pixel* __restrict__ cotangent,
                          float* __restrict__ sums, Geometry g) {
    int groups = g.channels / CHANNELS, group = blockIdx.x * LANES + threadIdx.x;
    int rows = group < groups ? g.pictures * g.output_height : 0;
    float totals[SIDE][SIDE][CHANNELS] = {};
    for (int row = blockIdx.y * WARPS + threadIdx.y; row < rows; row += gridDim.y * WARPS) {
        const Pixel* pixels = input + (i64)(row / g.output_height) * g.input_height * g.input_width * groups + group;
        const Pixel* results = cotangent + (i64)row * g.output_width * groups + group;
        const Pixel* lines[SIDE];
        bool inside[SIDE];
        for (int ty = 0; ty < SIDE; ++ty) {
            int from_y = row % g.output_height * g.stride_y + ty * g.kernel_dilation_y - g.low_y;
            inside[ty] = from_y >= 0 && from_y < g.input_height;
            lines[ty] = pixels + from_y * g.input_width * groups;
        }
        auto pixel = [&](int ty, int from_x) {
            return inside[ty] && from_x >= 0 && from_x < g.input_width ? lines[ty][from_x * groups] : Pixel{};
        };
        Pixel window[SIDE][SIDE] = {};
        if (PLAIN)
            for (int ty = 0; ty < SIDE; ++ty)
                for (int tx = 1; tx < SIDE; ++tx) window[ty][tx] = pixel(ty, tx - 1 - g.low_x);
        // Unrolled, so that the next columns are on their way while this one is computed.
#pragma unroll(SIDE == 3 ? 4 : 1)
        for (int x = 0; x < g.output_width; ++x) {
            Pixel result = results[x * groups];
#pragma unroll
            for (int ty = 0; ty < SIDE; ++ty)
#pragma unroll
                for (int tx = 0; tx < SIDE; ++tx) {
                    bool known = PLAIN && tx < SIDE - 1;
                    int from_x = PLAIN ? x + tx - g.low_x : x * g.stride_x + tx * g.kernel_dilation_x - g.low_x;
                    window[ty][tx] = known ? window[ty][(tx + 1) % SIDE] : pixel(ty, from_x);
                    for (int i = 0; i < CHANNELS; ++i) totals[ty][tx][i] += window[ty][tx][i] * result[i];
                }
        }
    }
    __shared__ float shared[WARPS][LANES * CHANNELS];
    int place = threadIdx.y * LANES + threadIdx.x, channel = blockIdx.x * LANES * CHANNELS + place;
#pragma unroll
    for (int tap = 0; tap < SIDE * SIDE; ++tap) {
        for (int i = 0; i < CHANNELS; ++i)
            shared[threadIdx.y][threadIdx.x * CHANNELS + i] = totals[tap / SIDE][tap % SIDE][i];
        __syncthreads();
        if (place < LANES * CHANNELS && channel < g.channels) {
            float total = 0;
            for (int warp = 0; warp < WARPS; ++warp) total += shared[warp][place];
            sums[((i64)blockIdx.y * SIDE * SIDE + tap) * g.channels + channel] = total;
        }
        __syncthreads();
    }
}
