// Virtual functions whose tables are in another file.
#include "shape.h"

extern "C" __global__ void run(int *io) {
    int i = threadIdx.x;
    long long memory[4];
    Shape *shape = make(i & 1, io[i], memory);
    io[i] = shape->area(i + 1);
}

int main() {
    run<<<1, 32>>>(nullptr);
}
