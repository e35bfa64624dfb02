#include "sum.h"

__device__ __noinline__ int other(const int *p) {
    double d[2] = {p[0] * .5, p[1] * .25};
    return sum(p + 4, 4) + (int)sum(d, 2);
}
