// Every atomic operation, 32 and 64 bits, global and shared: contended ones whose result no order changes, and returned values of own places.
extern "C" __global__ void atomics(const unsigned *in, unsigned *g32, unsigned long long *g64, unsigned *own, unsigned long long *own64,
                                   double *dsum, int n) {
    __shared__ unsigned s[8];
    __shared__ unsigned long long s64[4];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 8)
        s[t] = t == 1 || t == 3 ? ~0u : 0;
    if (t < 4)
        s64[t] = t == 1 ? ~0ull : 0;
    __syncthreads();
    if (i < n) {
        unsigned v = in[i];
        unsigned long long w = (unsigned long long)v * 0x100000001ull;
        atomicAdd(&s[0], v);
        atomicMin(&s[1], v);
        atomicMax(&s[2], v);
        atomicAnd(&s[3], v | 0xff);
        atomicOr(&s[4], v & 0xf0f0);
        atomicXor(&s[5], v);
        atomicInc(&s[6], 1000u);
        atomicMax((int *)&s[7], (int)v);
        atomicAdd(&s64[0], w);
        atomicMin(&s64[1], w);
        atomicMax(&s64[2], w);
        atomicXor(&s64[3], w);
        atomicAnd(&g32[8], v | 0xf);
        atomicOr(&g32[9], v & 0xff00ff);
        atomicXor(&g32[10], v * 3);
        atomicSub(&g32[11], v);
        atomicInc(&g32[12], 16u);
        atomicDec(&g32[13], 20u);
        atomicAdd(dsum, (double)(v & 255) * 0.5);
        atomicOr(&g64[4], w & 0xff00ff00ff00ffull);
        atomicAnd(&g64[5], w | 0xffffull << 24);
        unsigned *o = own + i * 9;
        o[0] = atomicAdd(&o[0], v) + 1;
        o[1] ^= atomicExch(&o[2], v);
        o[3] = atomicCAS(&o[4], v & 1 ? 4u : 0u, v) * 2;
        o[5] = atomicInc(&o[6], v & 7);
        o[7] = atomicDec(&o[8], v & 7);
        unsigned long long *p = own64 + i * 3;
        p[0] = atomicCAS(&p[1], w & 1 ? 7ull : 9ull, w);
        p[0] += atomicExch(&p[2], w);
        p[0] ^= atomicAdd(&p[2], 5ull);
    }
    __syncthreads();
    if (t < 8) {
        if (t == 1)
            atomicMin(&g32[t], s[t]);
        else if (t == 2)
            atomicMax(&g32[t], s[t]);
        else if (t == 3)
            atomicAnd(&g32[t], s[t]);
        else if (t == 7)
            atomicMax((int *)&g32[t], (int)s[t]);
        else
            t == 4 ? atomicOr(&g32[t], s[t]) : t == 5 ? atomicXor(&g32[t], s[t]) : atomicAdd(&g32[t], s[t]);
    }
    if (t < 4)
        t == 1 ? atomicMin(&g64[t], s64[t]) : t == 2 ? atomicMax(&g64[t], s64[t]) : t == 3 ? atomicXor(&g64[t], s64[t]) : atomicAdd(&g64[t], s64[t]);
}
