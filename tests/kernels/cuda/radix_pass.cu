// One stable pass of a radix sort over 4-bit digits, by one block of 64 threads with 8 keys each: counters in shared memory, a block scan.
extern "C" __global__ void radix_pass(const unsigned *in, unsigned *out, int n, int shift) {
    __shared__ unsigned short counts[16][64];
    __shared__ unsigned totals[64];
    int t = threadIdx.x;
    for (int d = 0; d < 16; d++)
        counts[d][t] = 0;
    for (int j = t * 8; j < t * 8 + 8 && j < n; j++)
        counts[in[j] >> shift & 15][t]++;
    __syncthreads();
    unsigned sum = 0;
    unsigned short *flat = &counts[0][0];
    for (int j = t * 16; j < t * 16 + 16; j++) {
        unsigned c = flat[j];
        flat[j] = (unsigned short)sum;
        sum += c;
    }
    totals[t] = sum;
    __syncthreads();
    for (int d = 1; d < 64; d <<= 1) {
        unsigned v = t >= d ? totals[t - d] : 0;
        __syncthreads();
        totals[t] += v;
        __syncthreads();
    }
    unsigned before = totals[t] - sum;
    for (int j = t * 16; j < t * 16 + 16; j++)
        flat[j] += (unsigned short)before;
    __syncthreads();
    for (int j = t * 8; j < t * 8 + 8 && j < n; j++)
        out[counts[in[j] >> shift & 15][t]++] = in[j];
}
