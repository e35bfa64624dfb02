// Merges two sorted arrays: each thread finds its diagonal by binary search and merges four elements.
extern "C" __global__ void merge_path(const int *a, int na, const int *b, int nb, int *out) {
    int diagonal = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (diagonal >= na + nb)
        return;
    int low = max(0, diagonal - nb), high = min(diagonal, na);
    while (low < high) {
        int mid = (low + high) >> 1;
        if (a[mid] <= b[diagonal - 1 - mid])
            low = mid + 1;
        else
            high = mid;
    }
    int i = low, j = diagonal - low;
    for (int k = diagonal; k < diagonal + 4 && k < na + nb; k++)
        out[k] = i < na && (j >= nb || a[i] <= b[j]) ? a[i++] : b[j++];
}
