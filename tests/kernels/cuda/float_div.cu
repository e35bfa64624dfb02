// Division, reciprocal and square root, correctly rounded in the four directions, and flushed to zero.
extern "C" __global__ void float_div(const float2 *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float a = in[i].x, b = in[i].y, m = fabsf(a), f0, f1, f2;
    asm("div.rn.ftz.f32 %0, %1, %2;" : "=f"(f0) : "f"(a), "f"(b));
    asm("rcp.rn.ftz.f32 %0, %1;" : "=f"(f1) : "f"(a));
    asm("sqrt.rn.ftz.f32 %0, %1;" : "=f"(f2) : "f"(m));
    float *o = out + i * 15;
    o[0] = __fdiv_rn(a, b);
    o[1] = __fdiv_rz(a, b);
    o[2] = __fdiv_rd(a, b);
    o[3] = __fdiv_ru(a, b);
    o[4] = __frcp_rn(a);
    o[5] = __frcp_rz(a);
    o[6] = __frcp_rd(a);
    o[7] = __frcp_ru(a);
    o[8] = __fsqrt_rn(m);
    o[9] = __fsqrt_rz(m);
    o[10] = __fsqrt_rd(m);
    o[11] = __fsqrt_ru(m);
    o[12] = f0;
    o[13] = f1;
    o[14] = f2;
}
