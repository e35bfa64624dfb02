"""Row quantisation to int8 with rounding half away from zero, and packing of two 4-bit values a byte."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_quantize(x, q, packed, scale, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < cols
    v = tl.load(x + row * cols + j, mask, other=0.0)
    top = tl.max(tl.abs(v), 0)
    s = tl.where(top > 0, tl.div_rn(top, 127.0), 1.0)
    r = tl.div_rn(v, s)
    r = tl.where(r >= 0, tl.floor(r + 0.5), tl.ceil(r - 0.5)).to(tl.int8)
    tl.store(q + row * cols + j, r, mask)
    low, high = tl.split(tl.reshape((r >> 4) & 15, [BLOCK // 2, 2]))
    k = tl.arange(0, BLOCK // 2)
    tl.store(packed + row * (cols // 2) + k, (low | (high << 4)).to(tl.int8), k < cols // 2)
    tl.store(scale + row, s)


ptx(triton_quantize, {"x": "*fp32", "q": "*i8", "packed": "*i8", "scale": "*fp32", "cols": "i32", "BLOCK": "constexpr"}, {"BLOCK": 256})
