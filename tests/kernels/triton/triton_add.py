"""Masked vector addition with four elements a thread: predicated vector loads and stores."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask) + tl.load(y + i, mask), mask)


ptx(triton_add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 512},
    divisible=("x", "y", "out", "n"), line_info=True)
