// What a warp that makes the cotangent of a fused norm + ReLU knows about it: it is zero where the norm was not positive, and
// the norm's own gradient follows from its sums and from those of its products with what was normalized.

// A lane's share: every fourth pair of pixels of two channels in every eight, as in a tally.
struct Cotangent {
    float factors[GROUPS][2], offsets[GROUPS][2], centers[GROUPS][2];
    float normed[EIGHTS][2][GROUPS][2];
    float sums[GROUPS][2] = {}, products[GROUPS][2] = {};

    // Factors and offsets are those of the norm; `center_offsets` moves what was normalized to its center.
    __device__ __forceinline__ void begin(const float* norm_factors, const float* norm_offsets,
                                          const float* center_offsets) {
#pragma unroll
        for (int i = 0; i < GROUPS * 2; ++i) {
            int m = i / 2, channel = i % 2, at = blockIdx.y * OUTPUTS + first_output(threadIdx.x / 4, m) + channel;
            factors[m][channel] = norm_factors[at];
            offsets[m][channel] = norm_offsets[at];
            centers[m][channel] = center_offsets[at];
        }
    }

    // Starts to read a row of what was normalized, of which `width` pixels count, from a lane's first pixel on.
    __device__ __forceinline__ void read(const float* from, int outputs, int width) {
        int group = threadIdx.x / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < EIGHTS * 2; ++i) {
            int e = i / 2, next = i % 2;
            if (8 * e + 2 * t + next >= width) continue;
            auto& pixel = normed[e][next];
#pragma unroll
            for (int m = 0; m < GROUPS; m += 2) {
                const float* here = from + (8 * e + next) * outputs + first_output(group, m);
                if (m + 1 < GROUPS) {
                    float4 four = __ldg(reinterpret_cast<const float4*>(here));
                    pixel[m][0] = four.x, pixel[m][1] = four.y;
                    pixel[m + 1 < GROUPS ? m + 1 : m][0] = four.z, pixel[m + 1 < GROUPS ? m + 1 : m][1] = four.w;
                } else {
                    float2 two = __ldg(reinterpret_cast<const float2*>(here));
                    pixel[m][0] = two.x, pixel[m][1] = two.y;
                }
            }
        }
    }

    // Makes the cotangent of that row, whose numbers times `back` are meant, and counts it.
    __device__ __forceinline__ void take(float (&row)[EIGHTS][GROUPS][4], float back, int width) {
        int t = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < EIGHTS * 2; ++i) {
            int e = i / 2, next = i % 2;
            if (8 * e + 2 * t + next >= width) continue;
#pragma unroll
            for (int j = 0; j < GROUPS * 2; ++j) {
                int m = j / 2, channel = j % 2;
                float x = normed[e][next][m][channel], &own = row[e][m][next + channel * 2];
                if (fmaf(x, factors[m][channel], offsets[m][channel]) <= 0) own = 0;
                sums[m][channel] += own * back;
                products[m][channel] += own * back * (x + centers[m][channel]);
            }
        }
    }

    // Writes the two sums of every channel.
    __device__ __forceinline__ void write(float* to, int outputs) const {
        int lane = threadIdx.x;
#pragma unroll
        for (int i = 0; i < GROUPS * 2; ++i) {
            int m = i / 2, channel = i % 2, at = blockIdx.y * OUTPUTS + first_output(lane / 4, m) + channel;
            float rows[2] = {Tally::all(sums[m][channel]), Tally::all(products[m][channel])};
            if (lane % 4 == 0) to[at] = rows[0], to[outputs + at] = rows[1];
        }
    }
};
