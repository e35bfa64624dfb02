// A managed variable of another file.
extern __managed__ int total;
extern __device__ void count(int x);

extern "C" __global__ void run(int *io) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < 8; i++) count(io[i]);
        io[0] = total;
    }
}

int main() {
    run<<<1, 32>>>(nullptr);
    total = 1;
}
