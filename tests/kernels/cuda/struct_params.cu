// Parameters of every size and a struct by value, whose array is indexed by data.
struct Settings {
    char mode;
    short bias;
    int steps[6];
    double scale;
    float4 color;
};
extern "C" __global__ void struct_params(unsigned char a, short b, Settings s, long long c, float f, const int *in, double *out, bool flag) {
    int i = threadIdx.x;
    double v = s.steps[in[i] % 6] * s.scale + a - b;
    if (flag)
        v += s.mode == 'x' ? s.color.x + s.bias : s.color.w * f;
    out[i] = v + (double)(c >> (i & 31));
}
