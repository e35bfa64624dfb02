// Sparse matrix times vector, CSR, one row a thread; doubles, 64-bit row offsets.
extern "C" __global__ void spmv_csr(const long long *row_start, const int *column, const double *value, const double *__restrict__ x,
                                    double *y, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    double sum = 0.0;
    for (long long j = row_start[row]; j < row_start[row + 1]; j++)
        sum += value[j] * x[column[j]];
    y[row] = sum;
}
