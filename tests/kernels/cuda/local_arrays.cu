// Local arrays with dynamic indices: insertion sort, a byte table of permutations, a small stack, a two-dimensional array.
extern "C" __global__ void local_arrays(const int *in, int *out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n)
        return;
    int keys[16], grid[4][5];
    unsigned char order[16];
    for (int i = 0; i < 16; i++) {
        int key = in[t * 16 + i], j = i;
        for (; j > 0 && keys[j - 1] > key; j--) {
            keys[j] = keys[j - 1];
            order[j] = order[j - 1];
        }
        keys[j] = key;
        order[j] = (unsigned char)i;
    }
    for (int i = 0; i < 20; i++)
        grid[i & 3][i % 5] = keys[i & 15] - i;
    // The grid is filled where i mod 4 and i mod 5 meet: 20 places, each once.
    int stack[12], top = 0;
    unsigned sum = 0;
    stack[top++] = order[0];
    while (top > 0) {
        int v = stack[--top];
        sum = sum * 5 + grid[v & 3][v % 5];
        if (v > 1 && top < 10) {
            stack[top++] = v >> 1;
            stack[top++] = v / 3;
        }
    }
    for (int i = 0; i < 16; i++)
        out[t * 17 + i] = keys[i] * 16 + order[i];
    out[t * 17 + 16] = sum;
}
