// RMS normalisation of half-precision rows, a block of 64 threads a row, two elements a load.
#include <cuda_fp16.h>
extern "C" __global__ void rmsnorm(const __half2 *in, const __half2 *gain, __half2 *out, int pairs, float eps) {
    __shared__ float s[2];
    const __half2 *x = in + blockIdx.x * pairs;
    float sum = 0.0f;
    for (int j = threadIdx.x; j < pairs; j += 64) {
        float2 v = __half22float2(x[j]);
        sum += v.x * v.x + v.y * v.y;
    }
    for (int d = 16; d; d >>= 1)
        sum += __shfl_xor_sync(~0u, sum, d);
    if ((threadIdx.x & 31) == 0)
        s[threadIdx.x >> 5] = sum;
    __syncthreads();
    float scale = rsqrtf((s[0] + s[1]) / (2 * pairs) + eps);
    for (int j = threadIdx.x; j < pairs; j += 64) {
        float2 v = __half22float2(x[j]), g = __half22float2(gain[j]);
        out[blockIdx.x * pairs + j] = __floats2half2_rn(v.x * scale * g.x, v.y * scale * g.y);
    }
}
