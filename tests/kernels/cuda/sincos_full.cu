// Full-range sine and cosine: the library's range reduction for large arguments uses a local array and a constant table.
extern "C" __global__ void sincos_full(const float *in, float *sine, float *cosine, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        sine[i] = sinf(in[i]);
        cosine[i] = cosf(in[i]);
    }
}
