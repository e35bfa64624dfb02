// Half and bfloat16 arithmetic: scalars and pairs, fused multiply-add, comparison, maximum, conversions in all roundings.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __global__ void half_math(const __half2 *a, const __half2 *b, __half2 *out, const float *f, unsigned short *converted, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __half2 x = a[i], y = b[i];
    __half2 *o = out + i * 8;
    o[0] = __hadd2(x, y);
    o[1] = __hmul2(x, y);
    o[2] = __hfma2(x, y, x);
    o[3] = __hsub2(x, y);
    o[4] = __hmax2(x, y);
    o[5] = __halves2half2(__hadd(x.x, y.y), __hmul(x.y, y.x));
    o[6] = __hlt(x.x, y.x) ? __lowhigh2highlow(x) : __hneg2(y);
    o[7] = __float2half2_rn(__half2float(x.x) * __half2float(y.y));
    unsigned short *c = converted + i * 10;
    c[0] = __half_as_ushort(__float2half_rn(f[i]));
    c[1] = __half_as_ushort(__float2half_rz(f[i]));
    c[2] = __half_as_ushort(__float2half_rd(f[i]));
    c[3] = __half_as_ushort(__float2half_ru(f[i]));
    c[4] = __bfloat16_as_ushort(__float2bfloat16_rn(f[i]));
    c[5] = __bfloat16_as_ushort(__float2bfloat16_rz(f[i]));
    __nv_bfloat162 p = __floats2bfloat162_rn(f[i], 0.5f), q = __hfma2(p, p, p);
    c[6] = __bfloat16_as_ushort(q.x);
    c[7] = __bfloat16_as_ushort(__hmul(p.x, p.y));
    c[8] = (unsigned short)__half2int_rn(x.x);
    c[9] = __half_as_ushort(__int2half_rn((int)f[i & 3] + i));
}
