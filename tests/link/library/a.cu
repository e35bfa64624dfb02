// Functions of two static libraries, one of which needs the other.
extern __device__ int outer(int x);

extern "C" __global__ void run(int *io) {
    io[threadIdx.x] = outer(io[threadIdx.x]);
}

int main() {
    run<<<1, 32>>>(nullptr);
}
