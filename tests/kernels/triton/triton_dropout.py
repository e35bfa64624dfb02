"""Dropout by Philox random numbers made from a seed and the element's number."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_dropout(x, out, bits, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, mask)
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), mask)
    tl.store(bits + i, tl.randint(seed, i), mask)


ptx(triton_dropout, {"x": "*fp32", "out": "*fp32", "bits": "*i32", "n": "i32", "p": "fp32", "seed": "i32", "BLOCK": "constexpr"},
    {"BLOCK": 256}, divisible=("x", "out", "bits"))
