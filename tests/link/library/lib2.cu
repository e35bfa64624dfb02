static __device__ int bias = 9;
__device__ __noinline__ int inner(int x) { return x - bias; }
