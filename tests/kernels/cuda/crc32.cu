// CRC-32 (the zlib polynomial) of slices of a byte string: the table is built in shared memory, then one slice a thread.
extern "C" __global__ void crc32(const unsigned char *in, const unsigned *offsets, unsigned *out, unsigned slices) {
    __shared__ unsigned table[256];
    for (unsigned b = threadIdx.x; b < 256; b += blockDim.x) {
        unsigned c = b;
        for (int i = 0; i < 8; i++)
            c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
        table[b] = c;
    }
    __syncthreads();
    unsigned s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= slices)
        return;
    unsigned c = ~0u;
    for (unsigned i = offsets[s]; i < offsets[s + 1]; i++)
        c = table[(c ^ in[i]) & 255] ^ (c >> 8);
    out[s] = ~c;
}
