__managed__ int total = 100;
__device__ int calls;

__device__ __noinline__ void count(int x) {
    total += x;
    calls++;
}
