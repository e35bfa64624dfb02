// Nested loops left by break, goto and return from the middle: the first place of a pattern in a matrix, with wild cards.
extern "C" __global__ void nested_breaks(const unsigned char *text, int w, int h, const unsigned char *patterns, int *out, int count) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= count)
        return;
    const unsigned char *pattern = patterns + p * 9;
    int found = -1, tried = 0;
    for (int y = 0; y + 3 <= h; y++) {
        for (int x = 0; x + 3 <= w; x++) {
            tried++;
            bool all = true;
            for (int j = 0; j < 3 && all; j++)
                for (int i = 0; i < 3; i++) {
                    unsigned char c = pattern[j * 3 + i];
                    if (c == '?')
                        continue;
                    if (c == '!')
                        goto next;
                    if (c == '.') {
                        out[2 * p] = -2;
                        out[2 * p + 1] = tried;
                        return;
                    }
                    if (text[(y + j) * w + x + i] != c) {
                        all = false;
                        break;
                    }
                }
            if (all) {
                found = y * w + x;
                goto done;
            }
        }
    next:;
    }
done:
    out[2 * p] = found;
    out[2 * p + 1] = tried;
}
