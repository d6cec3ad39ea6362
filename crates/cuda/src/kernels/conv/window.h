// What all kernels share. SIDE (the kernel's height and width) is given by the compiler's options.

typedef unsigned short bf16;
typedef long long i64;

// The same fields in the same order as `Geometry` in window.rs. Along one axis, wherever the division is whole,
// y[o] = sum over t of x[(o * stride + t * kernel_dilation - low) / input_dilation] * k[t].
struct Geometry {
    int images, channels, output_channels;
    int input_height, input_width;
    int output_height, output_width;
    int stride_y, stride_x;
    int low_y, low_x;
    int input_dilation_y, input_dilation_x;
    int kernel_dilation_y, kernel_dilation_x;
    int reversed;
};

// N neighboring channels as they lie in memory, and as numbers.
template <typename Element, int N> struct Channels;

template <int N> struct alignas(N % 4 == 0 ? 16 : N % 2 == 0 ? 8 : 4) Channels<float, N> {
    float values[N];

    __device__ __forceinline__ float operator[](int i) const { return values[i]; }

    static __device__ __forceinline__ Channels from(const float* numbers) {
        Channels packed;
        for (int i = 0; i < N; ++i) packed.values[i] = numbers[i];
        return packed;
    }
};

template <int N> struct alignas(2 * N) Channels<bf16, N> {
    unsigned pairs[N / 2];

    // A bf16 is the upper half of an f32.
    __device__ __forceinline__ float operator[](int i) const {
        return __uint_as_float(i % 2 ? pairs[i / 2] & 0xffff0000u : pairs[i / 2] << 16);
    }

    static __device__ __forceinline__ Channels from(const float* numbers) {
        Channels packed;
        for (int i = 0; i < N / 2; ++i)
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed.pairs[i]) : "f"(numbers[2 * i + 1]), "f"(numbers[2 * i]));
        return packed;
    }
};
