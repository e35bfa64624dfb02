// Sum of n floats a block, by a tree in shared memory; one partial sum a block. The block has 128 threads.
extern "C" __global__ void reduce_shared(const float *in, float *out, int n) {
    __shared__ float s[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    s[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int step = 64; step > 0; step >>= 1) {
        if (t < step)
            s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}
