// Bit tricks: population count, leading zeros, reversal, find first, bit fields, byte permutes, three-input logic, funnel shifts.
extern "C" __global__ void bits(const uint2 *in, unsigned *out, unsigned long long *out64, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned a = in[i].x, b = in[i].y, f, s, ins;
    unsigned long long d = (unsigned long long)b << 32 | a;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(f) : "r"(a), "r"(b & 0xff), "r"(b >> 8 & 0xff));
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(s) : "r"(a), "r"(b & 0xff), "r"(b >> 8 & 0xff));
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(ins) : "r"(a), "r"(b), "r"(b >> 16 & 0x3f), "r"(a & 0x3f));
    unsigned *o = out + i * 20;
    o[0] = __popc(a);
    o[1] = __clz(a);
    o[2] = __brev(a);
    o[3] = __ffs(a);
    o[4] = __byte_perm(a, b, b);
    o[5] = (a & b) | (~a & 0x0f0ff0f0u);
    o[6] = a ^ b ^ (a >> 3);
    o[7] = __funnelshift_l(a, b, b);
    o[8] = __funnelshift_r(a, b, a);
    o[9] = __funnelshift_lc(a, b, b & 63);
    o[10] = __funnelshift_rc(a, b, a & 63);
    o[11] = f;
    o[12] = s;
    o[13] = ins;
    o[14] = __popcll(d);
    o[15] = __clzll(d);
    o[16] = __ffsll(d);
    o[17] = (int)a >> (b & 31);
    o[18] = a << (b & 31) | a >> (b & 31);
    o[19] = ~(a | b);
    out64[i * 2] = __brevll(d);
    out64[i * 2 + 1] = d << (a & 63) ^ (unsigned long long)((long long)d >> (b & 63));
}
