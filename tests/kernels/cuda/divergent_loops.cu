// Warp-divergent nested loops with continue, break and early exit: smallest factors, Collatz steps, greatest common divisors.
extern "C" __global__ void divergent_loops(const unsigned *in, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned v = in[i];
    if (v == 0) {
        out[i] = 0xffffffffu;
        return;
    }
    unsigned factor = v, steps = 0, g = 0;
    for (unsigned d = 2; d * d <= v; d++) {
        if (d > 2 && (d & 1) == 0)
            continue;
        if (v % d == 0) {
            factor = d;
            break;
        }
    }
    for (unsigned long long c = v; c != 1 && steps < 200; steps++)
        c = c & 1 ? 3 * c + 1 : c >> 1;
    for (unsigned a = 0; a < 4; a++) {
        unsigned x = v, y = in[(i + a) % n];
        while (y) {
            unsigned r = x % y;
            x = y;
            y = r;
        }
        g += x;
        if (g > 1000)
            break;
    }
    out[i] = factor * 31 + steps * 7 + g;
}
