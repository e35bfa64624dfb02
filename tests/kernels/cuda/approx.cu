// Every approximate function of the hardware, with and without flushing denormals.
#define UNARY(name, op) \
    __device__ __forceinline__ float name(float x) { float r; asm(op " %0, %1;" : "=f"(r) : "f"(x)); return r; }
UNARY(rcp, "rcp.approx.f32")
UNARY(rcp_ftz, "rcp.approx.ftz.f32")
UNARY(rsqrt_, "rsqrt.approx.f32")
UNARY(rsqrt_ftz, "rsqrt.approx.ftz.f32")
UNARY(sqrt_, "sqrt.approx.f32")
UNARY(sqrt_ftz, "sqrt.approx.ftz.f32")
UNARY(sin_, "sin.approx.f32")
UNARY(cos_, "cos.approx.ftz.f32")
UNARY(ex2, "ex2.approx.f32")
UNARY(ex2_ftz, "ex2.approx.ftz.f32")
UNARY(lg2, "lg2.approx.f32")
UNARY(lg2_ftz, "lg2.approx.ftz.f32")
UNARY(tanh_, "tanh.approx.f32")

extern "C" __global__ void approx(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[i], q, full;
    float y = in[(i + 1) % n];
    asm("div.approx.f32 %0, %1, %2;" : "=f"(q) : "f"(x), "f"(y));
    asm("div.full.f32 %0, %1, %2;" : "=f"(full) : "f"(x), "f"(y));
    float *o = out + i * 15;
    o[0] = rcp(x), o[1] = rcp_ftz(x), o[2] = rsqrt_(x), o[3] = rsqrt_ftz(x), o[4] = sqrt_(x), o[5] = sqrt_ftz(x), o[6] = sin_(x);
    o[7] = cos_(x), o[8] = ex2(x), o[9] = ex2_ftz(x), o[10] = lg2(x), o[11] = lg2_ftz(x), o[12] = tanh_(x), o[13] = q, o[14] = full;
}
