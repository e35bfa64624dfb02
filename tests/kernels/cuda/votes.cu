// Warp votes, matches and reductions: ballot, any, all, uni, match.any, match.all, redux in all operations.
extern "C" __global__ void votes(const int *in, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = i < n ? in[i] : -1;
    int all_same;
    unsigned *o = out + i * 14;
    o[0] = __ballot_sync(~0u, v & 1);
    o[1] = __any_sync(~0u, v > 1000);
    o[2] = __all_sync(~0u, v < 1000);
    o[3] = __uni_sync(~0u, v < 0);
    o[4] = __match_any_sync(~0u, v % 5);
    o[5] = __match_all_sync(~0u, v, &all_same);
    o[6] = all_same;
    o[7] = __reduce_add_sync(~0u, (unsigned)v);
    o[8] = __reduce_min_sync(~0u, v);
    o[9] = __reduce_max_sync(~0u, (unsigned)v);
    o[10] = __reduce_and_sync(~0u, (unsigned)v);
    o[11] = __reduce_or_sync(~0u, (unsigned)v) ^ __reduce_xor_sync(~0u, (unsigned)v);
    unsigned odd = o[0], mask = v & 1 ? odd : ~odd;
    o[12] = __match_any_sync(mask, (unsigned long long)(v / 7) << 33);
    __syncwarp();
    o[13] = v & 1 ? __popc(__ballot_sync(mask, v > 50)) : 100 + __reduce_max_sync(mask, v & 0xff);
}
