"""Sum, minimum and bit-wise combination of integers over 8 warps; one result a program by an atomic."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def xor(a, b):
    return a ^ b


@triton.jit
def triton_sum(x, total, low, mixed, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=0)
    tl.atomic_add(total, tl.sum(v.to(tl.int64), 0))
    tl.atomic_min(low, tl.min(v, 0))
    tl.atomic_xor(mixed, tl.reduce(v, 0, xor))


ptx(triton_sum, {"x": "*i32", "total": "*i64", "low": "*i32", "mixed": "*i32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 1024},
    divisible=("x",), num_warps=8)
