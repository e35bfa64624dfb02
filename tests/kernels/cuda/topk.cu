// The k largest values of a row and their places, a warp a row: k rounds of an arg-max by shuffles; ties go to the lower place.
extern "C" __global__ void topk(const float *in, float *value, int *place, int cols, int k) {
    int lane = threadIdx.x, row = blockIdx.x;
    unsigned taken = 0;
    for (int round = 0; round < k; round++) {
        float best = 0.0f;
        int at = -1;
        for (int j = lane, bit = 0; j < cols; j += 32, bit++) {
            float v = in[row * cols + j];
            if (!(taken >> bit & 1) && (at < 0 || v > best)) {
                best = v;
                at = j;
            }
        }
        for (int d = 16; d; d >>= 1) {
            float other = __shfl_xor_sync(~0u, best, d);
            int other_at = __shfl_xor_sync(~0u, at, d);
            if (other_at >= 0 && (at < 0 || other > best || (other == best && other_at < at))) {
                best = other;
                at = other_at;
            }
        }
        if (at >= 0 && (at & 31) == lane)
            taken |= 1u << (at >> 5);
        if (lane == 0) {
            value[row * k + round] = best;
            place[row * k + round] = at;
        }
    }
}
