// 32-bit and narrower integers: high and 24-bit products, absolute difference, saturation, averages, minimum and maximum, byte lanes.
extern "C" __global__ void int_misc(const int2 *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int a = in[i].x, b = in[i].y, sat, subsat;
    asm("add.sat.s32 %0, %1, %2;" : "=r"(sat) : "r"(a), "r"(b));
    asm("sub.sat.s32 %0, %1, %2;" : "=r"(subsat) : "r"(a), "r"(b));
    short sa = (short)a, sb = (short)b;
    signed char ca = (signed char)a, cb = (signed char)(b >> 8);
    int *o = out + i * 16;
    o[0] = __mulhi(a, b);
    o[1] = __umulhi(a, b);
    o[2] = __mul24(a, b);
    o[3] = __umul24(a, b);
    o[4] = __sad(a, b, 5);
    o[5] = __usad(a, b, 7);
    o[6] = sat;
    o[7] = subsat;
    o[8] = __hadd(a, b);
    o[9] = abs(a) - min(a, b);
    o[10] = max((unsigned)a, (unsigned)b);
    o[11] = sa * sb + (short)(sa - sb);
    o[12] = (short)(sa * 3) < sb ? ca : cb;
    o[13] = (unsigned short)(sa >> 3) + (signed char)(ca * cb);
    o[14] = ((unsigned)a >= (unsigned)b) + (a >= b) * 2 + (a != b) * 4 + (sa == sb) * 8;
    o[15] = (a == 0 ? 1 : -a) * (b | 1);
}
