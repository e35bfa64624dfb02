__device__ __noinline__ float texel(cudaTextureObject_t texture, int x, int y) {
    return tex2D<float>(texture, x + .5f, y + .5f);
}
