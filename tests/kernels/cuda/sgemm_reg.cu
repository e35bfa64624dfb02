// C = A*B with a 4x4 register tile a thread and 32x32 block tiles, float4 loads and explicit fma. Sizes are multiples of 32.
extern "C" __global__ __launch_bounds__(64) void sgemm_reg(int n, int k, const float4 *a, const float4 *b, float4 *c) {
    __shared__ float as[8][33];
    __shared__ float4 bs[8][8];
    int t = threadIdx.x, tx = t & 7, ty = t >> 3;
    float acc[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            acc[i][j] = 0.0f;
    for (int k0 = 0; k0 < k; k0 += 8) {
        float4 v = a[((blockIdx.y * 32 + (t >> 1)) * k + k0 + (t & 1) * 4) >> 2];
        int kk = (t & 1) * 4;
        as[kk][t >> 1] = v.x;
        as[kk + 1][t >> 1] = v.y;
        as[kk + 2][t >> 1] = v.z;
        as[kk + 3][t >> 1] = v.w;
        bs[ty][tx] = b[((k0 + ty) * n + blockIdx.x * 32 + tx * 4) >> 2];
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 8; kk++) {
            float4 bv = bs[kk][tx];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float av = as[kk][ty * 4 + i];
                acc[i][0] = fmaf(av, bv.x, acc[i][0]);
                acc[i][1] = fmaf(av, bv.y, acc[i][1]);
                acc[i][2] = fmaf(av, bv.z, acc[i][2]);
                acc[i][3] = fmaf(av, bv.w, acc[i][3]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        c[((blockIdx.y * 32 + ty * 4 + i) * n + blockIdx.x * 32 + tx * 4) >> 2] =
            make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}
