// Two arrays of different types in dynamic shared memory, sized by arguments: a one-dimensional filter over a block's tile and halo.
extern __shared__ double dynamic[];
extern "C" __global__ void dynamic_shared(const double *in, const short *taps, double *out, int n, int radius) {
    double *tile = dynamic;
    short *weights = (short *)(tile + blockDim.x + 2 * radius);
    int base = blockIdx.x * blockDim.x - radius, t = threadIdx.x;
    for (int j = t; j < blockDim.x + 2 * radius; j += blockDim.x)
        tile[j] = base + j >= 0 && base + j < n ? in[base + j] : 0.0;
    for (int j = t; j < 2 * radius + 1; j += blockDim.x)
        weights[j] = taps[j];
    __syncthreads();
    double sum = 0.0;
    for (int j = 0; j < 2 * radius + 1; j++)
        sum += tile[t + j] * weights[j];
    if (base + radius + t < n)
        out[base + radius + t] = sum;
}
