// GELU by the error function and by the hyperbolic tangent.
extern "C" __global__ void gelu(const float *in, float *by_erf, float *by_tanh, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[i];
    by_erf[i] = 0.5f * x * (1.0f + erff(x * 0.70710678f));
    by_tanh[i] = 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}
