"""Transpose of a tile: the layout changes through shared memory so that both sides are vectors."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_transpose(x, out, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * C + tl.arange(0, C)
    v = tl.load(x + r[:, None] * cols + c[None, :], (r[:, None] < rows) & (c[None, :] < cols))
    tl.store(out + c[:, None] * rows + r[None, :], tl.trans(v), (c[:, None] < cols) & (r[None, :] < rows))


ptx(triton_transpose, {"x": "*fp32", "out": "*fp32", "rows": "i32", "cols": "i32", "R": "constexpr", "C": "constexpr"},
    {"R": 32, "C": 32}, divisible=("x", "out", "rows", "cols"))
