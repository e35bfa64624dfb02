"""Prefix sums and prefix maxima along rows: the associative scan over lanes and warps."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def bigger(a, b):
    return tl.maximum(a, b)


@triton.jit
def triton_scan(x, sums, maxima, cols, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    at = tl.program_id(0) * cols + j
    v = tl.load(x + at, j < cols, other=0)
    tl.store(sums + at, tl.cumsum(v, 0), j < cols)
    tl.store(maxima + at, tl.associative_scan(v, 0, bigger, reverse=True), j < cols)


ptx(triton_scan, {"x": "*i32", "sums": "*i32", "maxima": "*i32", "cols": "i32", "BLOCK": "constexpr"}, {"BLOCK": 512},
    divisible=("x", "sums", "maxima"))
