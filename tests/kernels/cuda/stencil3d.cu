// Seven-point stencil on a 3-D grid with 3-D blocks; the border is copied. 64-bit indices.
extern "C" __global__ void stencil3d(const double *in, double *out, int nx, int ny, int nz, double c) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz)
        return;
    long long sx = 1, sy = nx, sz = (long long)nx * ny, i = x * sx + y * sy + z * sz;
    if (x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1) {
        out[i] = in[i];
        return;
    }
    out[i] = in[i - sx] + in[i + sx] + in[i - sy] + in[i + sy] + in[i - sz] + in[i + sz] - c * in[i];
}
