// Points in the quarter circle by Philox 4x32-10 counters: one count a thread, summed by redux over the warp and an atomic.
__device__ __forceinline__ void philox(uint4 &c, unsigned k0, unsigned k1) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

extern "C" __global__ void monte_carlo(unsigned long long seed, unsigned draws, unsigned *per_thread, unsigned long long *inside) {
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x, hits = 0;
    for (unsigned i = 0; i < draws; i++) {
        uint4 c = make_uint4(i, t, 0, 7);
        philox(c, (unsigned)seed, (unsigned)(seed >> 32));
        unsigned long long x = c.x >> 1, y = c.y >> 1, u = c.z >> 1, v = c.w >> 1;
        hits += x * x + y * y < 1ull << 62;
        hits += u * u + v * v < 1ull << 62;
    }
    per_thread[t] = hits;
    unsigned warp = __reduce_add_sync(~0u, hits);
    if ((threadIdx.x & 31) == 0)
        atomicAdd(inside, (unsigned long long)warp);
}
