// One thread a block takes a lock by compare-and-swap, updates shared state that is not atomic, and releases the lock.
extern "C" __global__ void spinlock(unsigned *lock, volatile unsigned long long *state, unsigned *per_block) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0u, 1u) != 0u)
            ;
        __threadfence();
        state[0] = state[0] + blockIdx.x + 1;
        state[1] = state[1] + 1;
        __threadfence();
        atomicExch(lock, 0u);
    }
    __syncthreads();
    __threadfence_block();
    if (threadIdx.x < 2)
        per_block[blockIdx.x * 2 + threadIdx.x] = blockIdx.x * 10 + threadIdx.x;
}
