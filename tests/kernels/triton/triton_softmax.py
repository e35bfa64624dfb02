"""Row softmax, a program a row: reductions by shuffles and shared memory, exp2 of the hardware."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_softmax(x, out, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + j, j < cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * stride + j, e / tl.sum(e, 0), j < cols)


ptx(triton_softmax, {"x": "*fp32", "out": "*fp32", "stride": "i32", "cols": "i32", "BLOCK": "constexpr"}, {"BLOCK": 256},
    divisible=("x", "out", "stride"))
