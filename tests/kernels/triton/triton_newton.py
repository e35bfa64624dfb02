"""Integer square roots by a while loop that ends when all elements have converged; double precision beside it."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_newton(x, root, real, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=1)
    r = tl.maximum(v, 1)
    busy = tl.max((r > v // r).to(tl.int32), 0)
    while busy != 0:
        r = tl.where(r > v // r, (r + v // r) // 2, r)
        busy = tl.max((r > v // r).to(tl.int32), 0)
    tl.store(root + i, r, i < n)
    tl.store(real + i, tl.sqrt(v.to(tl.float64)) * 0.5 + (v % 7).to(tl.float64), i < n)


ptx(triton_newton, {"x": "*i64", "root": "*i64", "real": "*fp64", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 128})
