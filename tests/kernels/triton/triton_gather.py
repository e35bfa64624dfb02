"""Rows of a table gathered by 64-bit ids, with a rotary rotation of pairs by given sines and cosines."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_gather(table, ids, cosines, sines, out, count, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, WIDTH // 2)
    known = r < count
    id = tl.load(ids + r, known, other=0)
    at = id[:, None] * WIDTH + j[None, :]
    a = tl.load(table + at, known[:, None])
    b = tl.load(table + at + WIDTH // 2, known[:, None])
    c = tl.load(cosines + r[:, None] * (WIDTH // 2) + j[None, :], known[:, None])
    s = tl.load(sines + r[:, None] * (WIDTH // 2) + j[None, :], known[:, None])
    to = out + r[:, None] * WIDTH + j[None, :]
    tl.store(to, a * c - b * s, known[:, None])
    tl.store(to + WIDTH // 2, b * c + a * s, known[:, None])


ptx(triton_gather, {"table": "*fp32", "ids": "*i64", "cosines": "*fp32", "sines": "*fp32", "out": "*fp32", "count": "i32",
                    "WIDTH": "constexpr", "ROWS": "constexpr"}, {"WIDTH": 32, "ROWS": 16}, divisible=("table", "cosines", "sines", "out"))
