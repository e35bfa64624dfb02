// Sum and maximum of signed integers, by shuffles in a warp and then over warps. Blocks of 32 to 1024 threads.
// nvcc: -lineinfo
extern "C" __global__ void reduce_shuffle(const int *in, long long *sum_out, int *max_out, int n) {
    __shared__ long long sums[32];
    __shared__ int maxs[32];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, warps = (blockDim.x + 31) >> 5;
    long long sum = 0;
    int max = -2147483647 - 1;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) {
        sum += in[i];
        max = in[i] > max ? in[i] : max;
    }
    for (int d = 16; d; d >>= 1) {
        sum += __shfl_down_sync(~0u, sum, d);
        int other = __shfl_xor_sync(~0u, max, d);
        max = other > max ? other : max;
    }
    if (lane == 0) {
        sums[warp] = sum;
        maxs[warp] = max;
    }
    __syncthreads();
    if (warp == 0) {
        sum = lane < warps ? sums[lane] : 0;
        max = lane < warps ? maxs[lane] : -2147483647 - 1;
        for (int d = 16; d; d >>= 1) {
            sum += __shfl_down_sync(~0u, sum, d);
            int other = __shfl_xor_sync(~0u, max, d);
            max = other > max ? other : max;
        }
        if (lane == 0) {
            sum_out[blockIdx.x] = sum;
            max_out[blockIdx.x] = max;
        }
    }
}
