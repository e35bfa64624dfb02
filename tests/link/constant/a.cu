// Constant variables of other files, with different alignments.
extern __constant__ int weights[16];
extern __constant__ double offset;
__constant__ char letters[5] = {1, 2, 3, 4, 5};

extern "C" __global__ void run(int *io) {
    int i = threadIdx.x;
    io[i] = io[i] * weights[i & 15] + (int)offset + letters[i % 5];
}

int main() {
    run<<<1, 32>>>(nullptr);
}
