// The same instances of templates in several files: one of each is linked.
#include "sum.h"
extern __device__ int other(const int *p);

extern "C" __global__ void run(int *io) {
    int i = threadIdx.x;
    float f[3] = {io[i] * 1.f, 2.f, 3.f};
    int value = sum(io, i & 3) + (int)sum(f, 3) + other(io);
    __syncthreads();
    io[i] = value;
}

int main() {
    run<<<1, 32>>>(nullptr);
}
