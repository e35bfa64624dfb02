// Single precision: add, multiply and fused multiply-add in every rounding, flushed and saturated; minimum, maximum, comparison, sign, rounding.
#define BINARY(name, op) \
    __device__ __forceinline__ float name(float x, float y) { float r; asm(op " %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
BINARY(add_ftz, "add.rn.ftz.f32")
BINARY(mul_ftz, "mul.rn.ftz.f32")
BINARY(add_sat, "add.rn.sat.f32")
BINARY(mul_sat, "mul.rz.ftz.sat.f32")
BINARY(sub_rd, "sub.rm.f32")
BINARY(min_nan, "min.NaN.f32")
BINARY(max_ftz, "max.ftz.f32")
BINARY(copysign_, "copysign.f32")

extern "C" __global__ void float_misc(const float *in, float *out, unsigned *compare, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float a = in[i * 3], b = in[i * 3 + 1], c = in[i * 3 + 2], fma_ftz, fma_sat;
    asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(fma_ftz) : "f"(a), "f"(b), "f"(c));
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(fma_sat) : "f"(a), "f"(b), "f"(c));
    float *o = out + i * 30;
    o[0] = __fadd_rn(a, b), o[1] = __fadd_rz(a, b), o[2] = __fadd_rd(a, b), o[3] = __fadd_ru(a, b);
    o[4] = __fmul_rn(a, b), o[5] = __fmul_rz(a, b), o[6] = __fmul_rd(a, b), o[7] = __fmul_ru(a, b);
    o[8] = __fmaf_rn(a, b, c), o[9] = __fmaf_rz(a, b, c), o[10] = __fmaf_rd(a, b, c), o[11] = __fmaf_ru(a, b, c);
    o[12] = add_ftz(a, b), o[13] = mul_ftz(a, b), o[14] = add_sat(a, b), o[15] = mul_sat(a, b), o[16] = sub_rd(a, b);
    o[17] = fma_ftz, o[18] = fma_sat;
    o[19] = fminf(a, b), o[20] = fmaxf(a, b), o[21] = min_nan(a, b), o[22] = max_ftz(a, b), o[23] = copysign_(a, b);
    o[24] = rintf(a), o[25] = floorf(a), o[26] = ceilf(a), o[27] = truncf(a), o[28] = -fabsf(a) - b, o[29] = __saturatef(a);
    unsigned m = 0;
    m |= (a < b) << 0 | (a <= b) << 1 | (a > b) << 2 | (a >= b) << 3 | (a == b) << 4 | (a != b) << 5;
    m |= !(a < b) << 6 | !(a >= b) << 7 | isnan(a) << 8 | isinf(a) << 9 | (a < b || c > 0.0f) << 10 | (a == a && b > c) << 11;
    m |= signbit(a) ? 1u << 12 : 0;
    compare[i] = m;
}
