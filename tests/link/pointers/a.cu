// A table of functions of another file, called through pointers.
typedef int (*Operation)(int, int);
extern __device__ Operation operations[3];

extern "C" __global__ void run(int *io) {
    int i = threadIdx.x;
    io[i] = operations[i % 3](io[i], io[31 - i]);
}

int main() {
    run<<<1, 32>>>(nullptr);
}
