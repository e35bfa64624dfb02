"""Histogram of a block by the language's own operation, added to the result by atomics."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_histogram(x, bins, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=0)
    counts = tl.histogram(v, BINS, mask=i < n)
    tl.atomic_add(bins + tl.arange(0, BINS), counts)


ptx(triton_histogram, {"x": "*i32", "bins": "*i32", "n": "i32", "BLOCK": "constexpr", "BINS": "constexpr"}, {"BLOCK": 512, "BINS": 64},
    divisible=("x", "bins"))
