"""GELU of half-precision values by the error function, gated by a second input's sigmoid."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_gelu(x, gate, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n).to(tl.float32)
    g = tl.load(gate + i, i < n).to(tl.float32)
    v = 0.5 * v * (1 + tl.erf(v * 0.70710678)) * tl.sigmoid(g)
    tl.store(out + i, v.to(tl.float16), i < n)


ptx(triton_gelu, {"x": "*fp16", "gate": "*fp16", "out": "*fp16", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 1024},
    divisible=("x", "gate", "out", "n"))
