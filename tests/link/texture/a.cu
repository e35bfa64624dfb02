// A texture that another file fetches from. `run` leaves it alone; `fetch` needs one.
extern __device__ float texel(cudaTextureObject_t texture, int x, int y);

extern "C" __global__ void fetch(int *io, cudaTextureObject_t texture) {
    io[threadIdx.x] = (int)texel(texture, threadIdx.x, 1);
}

extern "C" __global__ void run(int *io) {
    io[threadIdx.x] = io[threadIdx.x] * 5;
}

int main() {
    fetch<<<1, 32>>>(nullptr, 0);
    run<<<1, 32>>>(nullptr);
}
