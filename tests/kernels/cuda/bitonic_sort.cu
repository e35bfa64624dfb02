// Bitonic sort of one block's keys in dynamic shared memory; blockDim.x is a power of two, missing keys are INT_MAX.
extern __shared__ int keys[];
extern "C" __global__ void bitonic_sort(int *data, int n) {
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    keys[t] = i < n ? data[i] : 2147483647;
    __syncthreads();
    for (int size = 2; size <= blockDim.x; size <<= 1)
        for (int step = size >> 1; step > 0; step >>= 1) {
            int other = t ^ step;
            if (other > t) {
                int a = keys[t], b = keys[other];
                if ((a > b) == ((t & size) == 0)) {
                    keys[t] = b;
                    keys[other] = a;
                }
            }
            __syncthreads();
        }
    if (i < n)
        data[i] = keys[t];
}
