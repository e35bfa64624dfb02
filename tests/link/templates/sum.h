template <class T> __device__ T scale = 3;
template <class T> __device__ __noinline__ T sum(const T *p, int n) {
    T s = 0;
    for (int i = 0; i < n; i++) s += p[i] * scale<T>;
    return s;
}
