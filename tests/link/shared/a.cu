// Shared memory of several files: of a kernel, of a function that two kernels call, dynamic.
extern __device__ int exchange(int x);
extern __shared__ int dynamic[];

extern "C" __global__ void run(int *io) {
    __shared__ int own[32];
    int i = threadIdx.x;
    own[i] = io[i];
    dynamic[i] = 3 * i;
    __syncthreads();
    io[i] = exchange(own[i ^ 1]) + dynamic[31 - i];
}

extern "C" __global__ void other(int *io) {
    __shared__ double bigger[100];
    int i = threadIdx.x;
    bigger[i] = io[i];
    __syncthreads();
    io[i] = exchange((int)bigger[i ^ 3]);
}

int main() {
    run<<<1, 32, 128>>>(nullptr);
    other<<<1, 32, 128>>>(nullptr);
}
