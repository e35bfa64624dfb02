// What debugging information speaks of: structures, unions, bits, enumerations, templates, pointers, references, classes with
// virtual functions, lambdas, recursion, inlined functions, variables of every memory.
#include <cstdio>

namespace geo {
struct Point {
    float x, y;
    int tag[3];
};
enum Kind { LINE, CIRCLE = 7 };
template <typename T> struct Box {
    T lo, hi;
    Box *next;
    __device__ T width() const { return hi - lo; }
};
union Both {
    int i;
    float f;
};
} // namespace geo

enum class Color : unsigned char { Red = 1, Blue = 200 };
typedef unsigned int u32;
struct Bits {
    unsigned a : 3;
    unsigned b : 9;
    long long c : 40;
};
struct alignas(16) Matrix {
    double m[4][4];
    bool b;
};

__constant__ float table[4] = {1, 2, 3, 4};
__device__ geo::Box<float> boxes[10];
__device__ int counter;
__managed__ long long total;
volatile __device__ int flag;

static __device__ inline int twice(int v) {
    int r = v * 2;
    return r;
}
__device__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
__device__ __noinline__ float area(const geo::Point &p, geo::Kind k) {
    float s = p.x * p.y;
    if (k == geo::CIRCLE) {
        float q = s * 3.14f;
        s = q;
    }
    return s;
}

class Base {
  public:
    __device__ virtual int f(int x) { return x; }
    int z;
};
class Derived : public Base {
  public:
    __device__ int f(int x) override { return x + z; }
};

template <class F> __device__ float apply(F f, float4 v) {
    float s = 0;
    for (int i = 0; i < 4; i++)
        s += f(((float *)&v)[i]);
    return s;
}

template <int N> __global__ void sum(float *out, const int *__restrict__ in, u32 n) {
    __shared__ float tile[N];
    Bits bits;
    bits.a = n;
    geo::Both both;
    both.i = 3;
    for (u32 i = 0; i < n; i++) {
        int v = twice(in[i]);
        tile[threadIdx.x] += v + bits.a + both.f;
    }
    geo::Point p = {tile[0], tile[1], {1, 2, 3}};
    Derived d;
    d.z = n;
    Base *b = &d;
    out[blockIdx.x] = area(p, geo::CIRCLE) + boxes[n].width() + table[n & 3] + b->f(3);
    atomicAdd(&counter, 1);
}
template __global__ void sum<64>(float *, const int *, u32);

__global__ void many(Matrix *m, int (*fp)(int), Color c, const char *const *names, cudaTextureObject_t t) {
    double half = 0.5;
    float a = apply([=](float x) { return x * half + (int)c; }, make_float4(1, 2, 3, 4));
    printf("%f %s\n", a, names[0]);
    short s = -5;
    unsigned long long big = 4;
    a += tex2D<float>(t, a, s);
    switch (c) {
    case Color::Red: {
        int inner = factorial(3);
        m->m[0][inner] = a;
    } break;
    default:
        m->b = fp(s);
    }
    total += big + flag;
    int row[100];
    for (int i = 0; i < 100; i++)
        row[i] = fp(i);
    m->m[1][1] = row[threadIdx.x];
}
