// Row-wise quantisation to signed bytes: the largest magnitude gives the scale, values round to nearest even and saturate. A warp a row.
extern "C" __global__ void quantize(const float *in, char4 *out, float *scales, int quads) {
    int lane = threadIdx.x, row = blockIdx.x;
    const float *x = in + row * quads * 4;
    float top = 0.0f;
    for (int j = lane; j < quads * 4; j += 32)
        top = fmaxf(top, fabsf(x[j]));
    for (int d = 16; d; d >>= 1)
        top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
    float scale = top > 0.0f ? top / 127.0f : 1.0f;
    for (int j = lane; j < quads; j += 32) {
        char4 q;
        q.x = (signed char)max(-127, min(127, __float2int_rn(x[4 * j] / scale)));
        q.y = (signed char)max(-127, min(127, __float2int_rn(x[4 * j + 1] / scale)));
        q.z = (signed char)max(-127, min(127, __float2int_rn(x[4 * j + 2] / scale)));
        q.w = (signed char)max(-127, min(127, __float2int_rn(x[4 * j + 3] / scale)));
        out[row * quads + j] = q;
    }
    if (lane == 0)
        scales[row] = scale;
}
