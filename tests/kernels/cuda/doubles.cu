// Double precision: add, multiply, fused multiply-add, division and square root, some directed; comparison, minimum, rounding, sign.
extern "C" __global__ void doubles(const double *in, double *out, unsigned *compare, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double a = in[i * 3], b = in[i * 3 + 1], c = in[i * 3 + 2];
    double *o = out + i * 20;
    o[0] = a + b;
    o[1] = a - b;
    o[2] = a * b;
    o[3] = fma(a, b, c);
    o[4] = a / b;
    o[5] = sqrt(fabs(a));
    o[6] = 1.0 / b;
    o[7] = fmin(a, b);
    o[8] = fmax(a, b);
    o[9] = floor(a);
    o[10] = ceil(b);
    o[11] = trunc(a);
    o[12] = rint(b);
    o[13] = -fabs(c);
    o[14] = __dadd_rz(a, b);
    o[15] = __dmul_ru(a, b);
    o[16] = __fma_rd(a, b, c);
    o[17] = __ddiv_rz(a, b);
    o[18] = __dsqrt_ru(fabs(b));
    o[19] = a > b ? a : a == b ? c : -b;
    compare[i] = (a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a >= b) << 4 | !(a > b) << 5 | isnan(c) << 6;
}
