// Division and remainder, signed and unsigned, 32 and 16 bits, by a variable and by constants. Divisors are never zero.
extern "C" __global__ void int_div(const int2 *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int a = in[i].x, b = in[i].y;
    unsigned ua = a, ub = b;
    short sa = (short)a, sb = (short)b;
    unsigned short wa = (unsigned short)a, wb = (unsigned short)b;
    if (sb == 0)
        sb = 7, wb = 9;
    int *o = out + i * 16;
    o[0] = a / b;
    o[1] = a % b;
    o[2] = ua / ub;
    o[3] = ua % ub;
    o[4] = sa / sb;
    o[5] = sa % sb;
    o[6] = wa / wb;
    o[7] = wa % wb;
    o[8] = a / 7;
    o[9] = a % 10;
    o[10] = ua / 641;
    o[11] = ua % 1000003;
    o[12] = a / 16;
    o[13] = a % -8;
    o[14] = ua / ((ub & 31) + 1);
    o[15] = (signed char)a / 5 + (unsigned char)a % 6;
}
