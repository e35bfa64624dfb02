"""Arg-max of each row of a tile with the value: a reduction of pairs."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_argmax(x, value, place, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLS)
    v = tl.load(x + r[:, None] * cols + c[None, :], (r[:, None] < rows) & (c[None, :] < cols), other=-2147483648)
    best, at = tl.max(v, 1, return_indices=True)
    tl.store(value + r, best, r < rows)
    tl.store(place + r, at, r < rows)


ptx(triton_argmax, {"x": "*i32", "value": "*i32", "place": "*i32", "rows": "i32", "cols": "i32", "ROWS": "constexpr", "COLS": "constexpr"},
    {"ROWS": 8, "COLS": 64})
