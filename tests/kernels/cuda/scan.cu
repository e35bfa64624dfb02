// Inclusive prefix sum of one block's 256 elements: shuffles in a warp, shared memory over warps.
extern "C" __global__ void scan(const unsigned *in, unsigned *out, int n) {
    __shared__ unsigned warp_sum[8];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, i = blockIdx.x * 256 + t;
    unsigned v = i < n ? in[i] : 0;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        unsigned other = __shfl_up_sync(~0u, v, d);
        if (lane >= d)
            v += other;
    }
    if (lane == 31)
        warp_sum[warp] = v;
    __syncthreads();
    unsigned before = 0;
    for (int w = 0; w < warp; w++)
        before += warp_sum[w];
    if (i < n)
        out[i] = v + before;
}
