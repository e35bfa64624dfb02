__constant__ char first = 7;
__constant__ int weights[16] = {1, 3, 5, 7, 9, 11, 13, 15, 2, 4, 6, 8, 10, 12, 14, 16};
__constant__ double offset = 42.5;

__device__ int unused(int i) { return first + weights[i]; }
