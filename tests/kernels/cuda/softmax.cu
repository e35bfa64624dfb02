// Softmax of a row a block (64 threads): maximum and sum by shuffles and shared memory, the library's expf.
// nvcc: -lineinfo
__device__ float block_reduce(float v, bool is_max, float *s) {
    for (int d = 16; d; d >>= 1) {
        float o = __shfl_xor_sync(~0u, v, d);
        v = is_max ? fmaxf(v, o) : v + o;
    }
    if ((threadIdx.x & 31) == 0)
        s[threadIdx.x >> 5] = v;
    __syncthreads();
    v = is_max ? fmaxf(s[0], s[1]) : s[0] + s[1];
    __syncthreads();
    return v;
}

extern "C" __global__ void softmax(const float *in, float *out, int cols) {
    __shared__ float s[2];
    const float *row = in + (long long)blockIdx.x * cols;
    float top = -__int_as_float(0x7f800000);
    for (int j = threadIdx.x; j < cols; j += 64)
        top = fmaxf(top, row[j]);
    top = block_reduce(top, true, s);
    float sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 64)
        sum += expf(row[j] - top);
    sum = block_reduce(sum, false, s);
    for (int j = threadIdx.x; j < cols; j += 64)
        out[(long long)blockIdx.x * cols + j] = expf(row[j] - top) / sum;
}
