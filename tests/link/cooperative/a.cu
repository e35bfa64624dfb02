// A cooperative launch: a barrier of the whole grid, and groups of lanes in another file.
extern __device__ int reduce(int x);
extern __device__ void grid_barrier(unsigned *arrived, unsigned expected);
__device__ unsigned arrived;

extern "C" __global__ void run(int *io) {
    __shared__ int part[32];
    part[threadIdx.x] = io[threadIdx.x];
    __syncthreads();
    io[threadIdx.x] = reduce(part[31 - threadIdx.x]);
}

extern "C" __global__ void whole_grid(int *io) {
    io[blockIdx.x * 32 + threadIdx.x] = 1;
    grid_barrier(&arrived, gridDim.x);
    io[(gridDim.x - 1 - blockIdx.x) * 32 + threadIdx.x] += 1;
}

int main() {
    void *args[] = {nullptr};
    run<<<1, 32>>>(nullptr);
    cudaLaunchCooperativeKernel((void *)whole_grid, 1, 32, args);
}
