extern __shared__ int dynamic[];

__device__ __noinline__ int exchange(int x) {
    __shared__ short passed[33];
    int i = threadIdx.x;
    passed[i] = x;
    __syncthreads();
    return passed[(i + 7) & 31] * 100 + dynamic[i & 3] * 0;
}
