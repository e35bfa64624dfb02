// Layer normalisation, a warp a row: mean and variance by shuffles, exact square root and division.
extern "C" __global__ void layernorm(const float *in, const float *gain, const float *bias, float *out, int rows, int cols, float eps) {
    int lane = threadIdx.x, row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows)
        return;
    const float *x = in + row * cols;
    float sum = 0.0f, squares = 0.0f;
    for (int j = lane; j < cols; j += 32)
        sum += x[j];
    for (int d = 16; d; d >>= 1)
        sum += __shfl_xor_sync(~0u, sum, d);
    float mean = sum / cols;
    for (int j = lane; j < cols; j += 32)
        squares += (x[j] - mean) * (x[j] - mean);
    for (int d = 16; d; d >>= 1)
        squares += __shfl_xor_sync(~0u, squares, d);
    float scale = 1.0f / sqrtf(squares / cols + eps);
    for (int j = lane; j < cols; j += 32)
        out[row * cols + j] = (x[j] - mean) * scale * gain[j] + bias[j];
}
