// Five-point stencil with clamped edges, 2-D blocks.
extern "C" __global__ void stencil2d(const float *in, float *out, int w, int h, float c0, float c1) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h)
        return;
    int xl = max(x - 1, 0), xr = min(x + 1, w - 1), yu = max(y - 1, 0), yd = min(y + 1, h - 1);
    float sum = in[y * w + xl] + in[y * w + xr] + in[yu * w + x] + in[yd * w + x];
    out[y * w + x] = c0 * in[y * w + x] + c1 * sum;
}
