// Transpose of a rows x cols matrix through a padded shared tile; block (16, 4).
extern "C" __global__ void transpose(const float *in, float *out, int rows, int cols) {
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x;
    for (int j = threadIdx.y; j < 16; j += 4) {
        int y = blockIdx.y * 16 + j;
        if (x < cols && y < rows)
            tile[j][threadIdx.x] = in[y * cols + x];
    }
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    for (int j = threadIdx.y; j < 16; j += 4) {
        int y = blockIdx.x * 16 + j;
        if (x < rows && y < cols)
            out[y * rows + x] = tile[threadIdx.x][j];
    }
}
