// Calls of functions that stay functions: scalars, a struct by value both ways, a pointer to a local, a 64-bit and a double argument.
struct Pair {
    int a;
    float b;
    long long c;
};

__device__ __noinline__ int mix(int a, int b) { return (a ^ (b << 5)) * 0x9e3779b1 + b; }

__device__ __noinline__ Pair combine(Pair x, Pair y, double scale) {
    Pair r;
    r.a = mix(x.a, y.a);
    r.b = x.b + y.b * (float)scale;
    r.c = x.c - y.c * 3;
    return r;
}

__device__ __noinline__ void bump(Pair *p, unsigned char by, short less) {
    p->a += by;
    p->c -= less;
}

extern "C" __global__ void device_calls(const int *in, int *a, float *b, long long *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Pair x = {in[i], (float)(in[i] & 1023), in[i] * 5ll}, y = {i, 0.5f * i, -7ll * i};
    Pair r = combine(x, y, 0.25);
    if (in[i] & 1)
        bump(&r, (unsigned char)in[i], (short)(in[i] >> 3));
    r = combine(r, x, 2.0);
    a[i] = r.a;
    b[i] = r.b;
    c[i] = r.c;
}
