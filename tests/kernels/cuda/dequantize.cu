// Signed and unsigned bytes back to float, by row scale and zero point; and a byte dot product (dp4a) with the row itself.
extern "C" __global__ void dequantize(const char4 *in, const float *scales, unsigned char zero, float4 *out, int *dots, int quads) {
    int j = threadIdx.x, row = blockIdx.x;
    if (j >= quads)
        return;
    char4 q = in[row * quads + j];
    float s = scales[row];
    out[row * quads + j] = make_float4(((unsigned char)q.x - zero) * s, (q.y - zero) * s, q.z * s, (float)q.w / s);
    int word = *reinterpret_cast<int *>(&q);
    dots[row * quads + j] = __dp4a(word, word, (int)__dp4a((unsigned)word, 0x01020304u, (unsigned)j));
}
