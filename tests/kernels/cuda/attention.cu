// Causal attention, one query a thread, heads of 16: online softmax, float4 loads, the accumulator in registers.
extern "C" __global__ void attention(const float4 *q, const float4 *k, const float4 *v, float4 *out, int length, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, head = blockIdx.y;
    if (i >= length)
        return;
    float4 mine[4], acc[4];
#pragma unroll
    for (int c = 0; c < 4; c++) {
        mine[c] = q[(head * length + i) * 4 + c];
        acc[c] = make_float4(0, 0, 0, 0);
    }
    float top = -1e30f, sum = 0.0f;
    for (int j = 0; j <= i; j++) {
        float dot = 0.0f;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            float4 o = k[(head * length + j) * 4 + c];
            dot = fmaf(mine[c].x, o.x, dot);
            dot = fmaf(mine[c].y, o.y, dot);
            dot = fmaf(mine[c].z, o.z, dot);
            dot = fmaf(mine[c].w, o.w, dot);
        }
        dot *= scale;
        float next = fmaxf(top, dot), old = __expf(top - next), p = __expf(dot - next);
        sum = sum * old + p;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            float4 o = v[(head * length + j) * 4 + c];
            acc[c] = make_float4(fmaf(p, o.x, acc[c].x * old), fmaf(p, o.y, acc[c].y * old), fmaf(p, o.z, acc[c].z * old),
                                 fmaf(p, o.w, acc[c].w * old));
        }
        top = next;
    }
    float inv = __fdividef(1.0f, sum);
#pragma unroll
    for (int c = 0; c < 4; c++)
        out[(head * length + i) * 4 + c] = make_float4(acc[c].x * inv, acc[c].y * inv, acc[c].z * inv, acc[c].w * inv);
}
