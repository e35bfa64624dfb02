// Loads and stores under short-circuit conditions: null pointers, indices that must not be followed, stores under nested conditions.
extern "C" __global__ void predicated(const int *maybe, const int *index, const int *data, int *out, int n, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && index[i] >= 0 && index[i] < size && data[index[i]] > 0)
        out[i] = data[index[i]];
    if (i < n && ((maybe && maybe[i] < 0) || index[i] == -5))
        out[n + i] = maybe ? maybe[i] : -99;
    int v = i < n ? index[i] : 0;
    bool near = v > 0 && v < size && (data[v - 1] ^ data[v]) < 0;
    if (near)
        out[2 * n + i] = data[v - 1];
    else if (i < n)
        out[2 * n + i] = 77;
}
