#include <cstdio>

__device__ __noinline__ void say(int i, int x) { printf("%d has %d\n", i, x); }
