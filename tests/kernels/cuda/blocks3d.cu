// Three-dimensional grids and blocks: every index register, the lane and the lane masks.
extern "C" __global__ void blocks3d(unsigned *out) {
    unsigned lane, lt, ge;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
    unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned *o = out + (b * blockDim.x * blockDim.y * blockDim.z + t) * 5;
    o[0] = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16;
    o[1] = blockIdx.x | blockIdx.y << 8 | blockIdx.z << 16;
    o[2] = lane;
    o[3] = lt ^ ge;
    o[4] = lt + (t >> 5);
}
