// Count, sum, minimum and maximum by atomics on global memory; the float sum is of exactly representable values.
extern "C" __global__ void reduce_atomic(const int *in, int n, unsigned *count, unsigned long long *sum, int *low, int *high,
                                         float *fsum) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int v = in[i];
    atomicAdd(count, 1u);
    atomicAdd(sum, (unsigned long long)(long long)v);
    atomicMin(low, v);
    atomicMax(high, v);
    atomicAdd(fsum, (float)(v & 15) * 0.25f);
}
