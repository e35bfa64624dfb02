// Conversions among float, double and integers of 8 to 64 bits, in all roundings. Out-of-range values saturate.
#define TO(T, o, f, x) o[0] = f##_rn(x), o[1] = f##_rz(x), o[2] = f##_rd(x), o[3] = f##_ru(x), o += 4

extern "C" __global__ void convert(const double *in, const long long *in64, int *out32, long long *out64, float *outf, double *outd, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double d = in[i];
    float f = (float)d;
    long long l = in64[i];
    int *o = out32 + i * 20;
    TO(int, o, __float2int, f);
    TO(unsigned, o, __float2uint, f);
    TO(int, o, __double2int, d);
    TO(unsigned, o, __double2uint, d);
    short s;
    unsigned short us;
    int s8, u8;
    asm("cvt.rzi.s16.f32 %0, %1;" : "=h"(s) : "f"(f));
    asm("cvt.rni.u16.f64 %0, %1;" : "=h"(us) : "d"(d));
    asm("cvt.rzi.s8.f32 %0, %1;" : "=r"(s8) : "f"(f));
    asm("cvt.sat.u8.s64 %0, %1;" : "=r"(u8) : "l"(l));
    o[0] = s, o[1] = us, o[2] = s8, o[3] = u8;
    long long *p = out64 + i * 20;
    TO(long long, p, __float2ll, f);
    TO(long long, p, __float2ull, f);
    TO(long long, p, __double2ll, d);
    TO(long long, p, __double2ull, d);
    p[0] = (signed char)l, p[1] = (unsigned char)l, p[2] = (short)l, p[3] = (int)l;
    float *q = outf + i * 24;
    TO(float, q, __ll2float, l);
    TO(float, q, __ull2float, l);
    TO(float, q, __int2float, (int)l);
    TO(float, q, __uint2float, (unsigned)l);
    TO(float, q, __double2float, d);
    q[0] = (signed char)l, q[1] = (unsigned char)l, q[2] = (short)l, q[3] = (unsigned short)l;
    double *r = outd + i * 12;
    TO(double, r, __ll2double, l);
    TO(double, r, __ull2double, l);
    r[0] = f, r[1] = (int)l, r[2] = (unsigned)l, r[3] = (short)l;
}
