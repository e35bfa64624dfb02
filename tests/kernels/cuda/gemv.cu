// y = A*x, one warp a row, partial sums joined by xor shuffles.
extern "C" __global__ void gemv(const float *__restrict__ a, const float *__restrict__ x, float *y, int rows, int cols) {
    int lane = threadIdx.x & 31, row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int j = lane; j < cols; j += 32)
        sum += a[row * cols + j] * x[j];
#pragma unroll
    for (int d = 16; d; d >>= 1)
        sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0)
        y[row] = sum;
}
