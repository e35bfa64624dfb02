// Constant and global tables with initialisers, indexed by data: structs, bytes, doubles, a pointer to another variable.
struct Entry {
    unsigned char shift;
    short add;
    int mul;
    double weight;
};
__constant__ Entry ENTRIES[5] = {{1, -7, 3, 0.5}, {4, 300, -5, -2.25}, {0, 0, 1, 1e3}, {31, -32768, 65537, 0.125}, {9, 1, 0, -1.0}};
__constant__ unsigned char NEXT[16] = {3, 0, 7, 12, 1, 15, 4, 2, 9, 8, 6, 14, 5, 11, 13, 10};
__constant__ long long UNSET[3];
__device__ int table[8] = {10, -20, 30, -40, 50, -60, 70, -80};
__device__ int *const inside = &table[3];
__device__ unsigned seen = 5;

extern "C" __global__ void constants(const unsigned char *in, int *out, double *weights, unsigned *total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        Entry e = ENTRIES[in[i] % 5];
        int hops = 0;
        for (unsigned at = in[i] & 15; at != 0 && hops < 20; hops++)
            at = NEXT[at];
        out[i] = (i * e.mul + e.add) ^ (hops << (e.shift & 7)) ^ table[in[i] & 7] ^ inside[in[i] & 3] ^ (int)UNSET[in[i] % 3];
        weights[i] = e.weight * hops;
    }
    if (i == 0) {
        *total = seen + 37;
        table[7] = n;
    }
}
