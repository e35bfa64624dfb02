// Device calls across files, with registers, stack and barriers that come from the other file.
extern __device__ int twice(int x);
extern __device__ int gather(const int *p, int n);

extern "C" __global__ void run(int *io) {
    int i = threadIdx.x;
    io[i] = twice(io[i]) + gather(io + 32, i & 7);
}

int main() {
    run<<<1, 32>>>(nullptr);
}
