// Radix-2 complex FFT of 64 points a block in shared memory, 32 threads; twiddle factors from a table.
extern "C" __global__ void fft(const float2 *in, const float2 *twiddle, float2 *out) {
    __shared__ float2 s[64];
    int t = threadIdx.x;
    for (int i = t; i < 64; i += 32)
        s[__brev(i) >> 26] = in[blockIdx.x * 64 + i];
    __syncthreads();
    for (int half = 1; half < 64; half <<= 1) {
        int k = t & (half - 1), i = ((t - k) << 1) + k;
        float2 w = twiddle[k * (32 / half)], a = s[i], b = s[i + half];
        float2 m = make_float2(b.x * w.x - b.y * w.y, b.x * w.y + b.y * w.x);
        s[i] = make_float2(a.x + m.x, a.y + m.y);
        s[i + half] = make_float2(a.x - m.x, a.y - m.y);
        __syncthreads();
    }
    for (int i = t; i < 64; i += 32)
        out[blockIdx.x * 64 + i] = s[i];
}
