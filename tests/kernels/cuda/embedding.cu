// Embedding bag: sums of gathered table rows, ids are 64-bit, negative or too large ids count as padding. Block (8, 4): a float4 column a thread.
extern "C" __global__ void embedding(const float4 *table, const long long *ids, const int *offsets, float4 *out, int bags, long long vocabulary) {
    int bag = blockIdx.x * blockDim.y + threadIdx.y, c = threadIdx.x;
    if (bag >= bags)
        return;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int j = offsets[bag]; j < offsets[bag + 1]; j++) {
        long long id = ids[j];
        if (id < 0 || id >= vocabulary)
            continue;
        float4 row = table[id * 8 + c];
        sum.x += row.x, sum.y += row.y, sum.z += row.z, sum.w += row.w;
    }
    out[bag * 8 + c] = sum;
}
