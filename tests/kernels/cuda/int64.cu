// 64-bit integers: high products, division and remainder, shifts, comparisons, minimum, 128-bit product and carry chains.
extern "C" __global__ void int64(const long long *in, long long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    long long a = in[2 * i], b = in[2 * i + 1];
    unsigned long long ua = a, ub = b;
    long long sd = b == 0 || b == -1 ? 3 : b;
    unsigned long long ud = b == 0 ? 3 : ub;
    int s = (int)(b & 63);
    long long *o = out + i * 18;
    o[0] = a + b;
    o[1] = a - b;
    o[2] = a * b;
    o[3] = __mul64hi(a, b);
    o[4] = __umul64hi(ua, ub);
    o[5] = a / sd;
    o[6] = a % sd;
    o[7] = ua / ud;
    o[8] = ua % ud;
    o[9] = ua << s;
    o[10] = ua >> s;
    o[11] = a >> s;
    o[12] = a < b ? a : b;
    o[13] = ua > ub ? ua : ub;
    o[14] = (a < 0 ? -a : a) ^ ~b;
    o[15] = a / 10 + ua % 1000;
    unsigned x0 = (unsigned)ua, x1 = (unsigned)(ua >> 32), y0 = (unsigned)ub, y1 = (unsigned)(ub >> 32), z0, z1, z2;
    asm("add.cc.u32 %0, %3, %5;\n\taddc.cc.u32 %1, %4, %6;\n\taddc.u32 %2, 0, 0;"
        : "=r"(z0), "=r"(z1), "=r"(z2)
        : "r"(x0), "r"(x1), "r"(y0), "r"(y1));
    o[16] = (unsigned long long)z1 << 32 | z0;
    asm("mad.lo.cc.u32 %0, %2, %3, %4;\n\tmadc.hi.u32 %1, %2, %3, %5;" : "=r"(z0), "=r"(z1) : "r"(x0), "r"(y0), "r"(x1), "r"(y1));
    o[17] = ((unsigned long long)z1 << 32 | z0) + z2;
}
