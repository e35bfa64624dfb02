// C = alpha*A*B + beta*C with 16x16 shared tiles, one element a thread; row-major, m x k by k x n.
extern "C" __global__ void sgemm(int m, int n, int k, float alpha, const float *a, const float *b, float beta, float *c) {
    __shared__ float as[16][16], bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < k; k0 += 16) {
        as[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0.0f;
        bs[ty][tx] = k0 + ty < k && col < n ? b[(k0 + ty) * n + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++)
            sum += as[ty][j] * bs[j][tx];
        __syncthreads();
    }
    if (row < m && col < n)
        c[row * n + col] = alpha * sum + beta * c[row * n + col];
}
