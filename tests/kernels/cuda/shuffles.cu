// Shuffles of all four kinds with widths of 2 to 32, of 32-bit, 64-bit and float values, and by lane numbers from data.
extern "C" __global__ void shuffles(const int *in, int *out, double *outd) {
    int t = threadIdx.x, v = in[t];
    double d = v * 0.5;
    int *o = out + t * 12;
    o[0] = __shfl_sync(~0u, v, 5);
    o[1] = __shfl_sync(~0u, v, v & 63);
    o[2] = __shfl_sync(~0u, v, 3, 8);
    o[3] = __shfl_up_sync(~0u, v, 1);
    o[4] = __shfl_up_sync(~0u, v, 3, 16);
    o[5] = __shfl_down_sync(~0u, v, 2);
    o[6] = __shfl_down_sync(~0u, v, 5, 8);
    o[7] = __shfl_xor_sync(~0u, v, 1, 2);
    o[8] = __shfl_xor_sync(~0u, v, 12, 16);
    o[9] = __shfl_xor_sync(~0u, v, 17);
    int got, in_range;
    asm volatile("{ .reg .pred p; shfl.sync.down.b32 %0|p, %2, %3, 0x1c03, 0xffffffff; selp.s32 %1, 1, 0, p; }"
                 : "=r"(got), "=r"(in_range)
                 : "r"(v), "r"(v & 3));
    o[10] = got;
    o[11] = in_range;
    outd[t * 2] = __shfl_xor_sync(~0u, d, 16);
    outd[t * 2 + 1] = __shfl_down_sync(~0u, d, 1, 4);
}
