// What a warp of the convolution reports about the pixels that it made: how many there are, a number among them, the sum of
// their distances from it, and that of the squares.

// A lane's share: every fourth pair of pixels of two channels in every eight.
struct Tally {
    float shifts[GROUPS][2] = {}, distances[GROUPS][2] = {}, squares[GROUPS][2] = {};
    int count = 0;

    // A row, of which `width` pixels count. Its first pixel gives the shifts.
    __device__ __forceinline__ void take(const float (&sums)[EIGHTS][GROUPS][4], float back, bool is_first, int width) {
        int lane = threadIdx.x, t = lane % 4;
        if (is_first)
#pragma unroll
            for (int i = 0; i < GROUPS * 2; ++i)
                shifts[i / 2][i % 2] = __shfl_sync(~0u, sums[0][i / 2][i % 2 * 2] * back, lane / 4 * 4);
#pragma unroll
        for (int i = 0; i < EIGHTS * 2; ++i) {
            int e = i / 2, next = i % 2;
            if (8 * e + 2 * t + next >= width) continue;
            ++count;
#pragma unroll
            for (int j = 0; j < GROUPS * 2; ++j) {
                int m = j / 2, channel = j % 2;
                float distance = sums[e][m][next + channel * 2] * back - shifts[m][channel];
                distances[m][channel] += distance;
                squares[m][channel] += distance * distance;
            }
        }
    }

    // Of the lanes that have other pixels of the same channels.
    static __device__ __forceinline__ float all(float own) {
        own += __shfl_xor_sync(~0u, own, 1);
        return own + __shfl_xor_sync(~0u, own, 2);
    }

    // Writes the four numbers of every channel.
    __device__ __forceinline__ void write(float* to, int outputs) const {
        int lane = threadIdx.x;
        float pixels = all(count);
#pragma unroll
        for (int i = 0; i < GROUPS * 2; ++i) {
            int m = i / 2, channel = i % 2, at = blockIdx.y * OUTPUTS + first_output(lane / 4, m) + channel;
            float rows[4] = {pixels, shifts[m][channel], all(distances[m][channel]), all(squares[m][channel])};
            if (lane % 4 == 0)
#pragma unroll
                for (int row = 0; row < 4; ++row) to[row * outputs + at] = rows[row];
        }
    }
};
