// True recursion: Fibonacci, Ackermann, and two functions that call one another.
__device__ __noinline__ unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0)
        return n + 1;
    if (n == 0)
        return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ int is_odd(unsigned n);
__device__ __noinline__ int is_even(unsigned n) { return n == 0 ? 1 : is_odd(n - 1) * (int)(n | 1) ^ 2; }
__device__ __noinline__ int is_odd(unsigned n) { return n == 0 ? 0 : is_even(n - 1) + (int)n; }

extern "C" __global__ void recursion(const unsigned *in, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i * 3] = fib(in[i] % 10);
    out[i * 3 + 1] = ackermann(in[i] & 1, in[i] & 7) + ackermann(2, in[i] & 3);
    out[i * 3 + 2] = is_even(in[i] & 15);
}
