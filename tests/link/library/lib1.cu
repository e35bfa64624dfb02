extern __device__ int inner(int x);
static __device__ int bias = 4;
__device__ __noinline__ int outer(int x) { return inner(x) * 3 + bias; }
