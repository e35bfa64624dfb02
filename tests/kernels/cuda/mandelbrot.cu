// Escape times: a divergent loop with two exits.
extern "C" __global__ void mandelbrot(unsigned short *out, int w, int h, float x0, float y0, float dx, float dy, int limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= w || py >= h)
        return;
    float cx = x0 + px * dx, cy = y0 + py * dy, x = 0.0f, y = 0.0f;
    int i = 0;
    while (i < limit) {
        float xx = x * x, yy = y * y;
        if (xx + yy > 4.0f)
            break;
        y = 2.0f * x * y + cy;
        x = xx - yy + cx;
        i++;
    }
    out[py * w + px] = (unsigned short)i;
}
