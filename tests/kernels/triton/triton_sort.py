"""Sort of a row by the language's bitonic network, and a flipped copy."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_sort(x, up, down, n, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + j
    v = tl.sort(tl.load(x + at, j < n, other=2147483647))
    tl.store(up + at, v, j < n)
    tl.store(down + at, tl.flip(v), j < n)


ptx(triton_sort, {"x": "*i32", "up": "*i32", "down": "*i32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 128}, num_warps=1)
