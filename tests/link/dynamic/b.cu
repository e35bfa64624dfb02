__global__ void child(int *io) { io[threadIdx.x]++; }
