// Cooperative groups: a grid's barrier and tiles in another file.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern __device__ int reduce(int x);

extern "C" __global__ void run(int *io) {
    cg::thread_block block = cg::this_thread_block();
    __shared__ int part[32];
    part[block.thread_rank()] = io[block.thread_rank()];
    block.sync();
    io[block.thread_rank()] = reduce(part[31 - block.thread_rank()]);
}

extern "C" __global__ void whole_grid(int *io) {
    cg::grid_group grid = cg::this_grid();
    io[grid.thread_rank()] = 1;
    grid.sync();
    io[grid.size() - 1 - grid.thread_rank()] += 1;
}

int main() {
    void *args[] = {nullptr};
    run<<<1, 32>>>(nullptr);
    cudaLaunchCooperativeKernel((void *)whole_grid, 1, 32, args);
}
