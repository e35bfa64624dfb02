// 2-D convolution with zero padding: filter weights (3 x 3 a channel pair) in constant memory, input tile with halo in shared memory.
__constant__ float W[2][3][3][3] = {{{{1, 2, 1}, {0, 0, 0}, {-1, -2, -1}}, {{.5f, 0, -.5f}, {1, 0, -1}, {.5f, 0, -.5f}}, {{0, 1, 0}, {1, -4, 1}, {0, 1, 0}}},
                                    {{{.25f, .5f, .25f}, {.5f, 1, .5f}, {.25f, .5f, .25f}}, {{0, 0, 0}, {0, 3, 0}, {0, 0, 0}}, {{1, 0, 0}, {0, -2, 0}, {0, 0, 1}}}};

extern "C" __global__ void conv2d(const float *in, float *out, int w, int h) {
    __shared__ float tile[10][11];
    int tx = threadIdx.x, ty = threadIdx.y, x0 = blockIdx.x * 8, y0 = blockIdx.y * 8, o = blockIdx.z;
    float sum = 0.0f;
    for (int c = 0; c < 3; c++) {
        for (int j = ty * 8 + tx; j < 100; j += 64) {
            int x = x0 + j % 10 - 1, y = y0 + j / 10 - 1;
            tile[j / 10][j % 10] = x >= 0 && x < w && y >= 0 && y < h ? in[(c * h + y) * w + x] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int dy = 0; dy < 3; dy++)
#pragma unroll
            for (int dx = 0; dx < 3; dx++)
                sum += W[o][c][dy][dx] * tile[ty + dy][tx + dx];
        __syncthreads();
    }
    if (x0 + tx < w && y0 + ty < h)
        out[(o * h + y0 + ty) * w + x0 + tx] = fmaxf(sum, 0.0f);
}
