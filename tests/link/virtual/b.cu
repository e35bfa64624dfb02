#include "shape.h"
#include <new>

struct Square : Shape {
    int side;
    __device__ Square(int s) : side(s) {}
    __device__ int area(int scale) const override { return side * side * scale; }
};

struct Line : Shape {
    int length;
    __device__ Line(int l) : length(l) {}
    __device__ int area(int scale) const override { return length + scale; }
};

__device__ Shape *make(int kind, int size, void *memory) {
    if (kind) return new (memory) Square(size);
    return new (memory) Line(size);
}
