// Histogram of bytes: shared-memory atomics a block, then global atomics.
extern "C" __global__ void histogram(const unsigned char *in, unsigned n, unsigned *bins) {
    __shared__ unsigned s[256];
    for (unsigned b = threadIdx.x; b < 256; b += blockDim.x)
        s[b] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&s[in[i]], 1u);
    __syncthreads();
    for (unsigned b = threadIdx.x; b < 256; b += blockDim.x)
        if (s[b])
            atomicAdd(&bins[b], s[b]);
}
