"""Layer normalisation of half-precision rows in a loop over columns, with bfloat16 gain; line information on."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_layernorm(x, gain, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * cols
    out += row * cols
    total = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        j = start + tl.arange(0, BLOCK)
        v = tl.load(x + j, j < cols, other=0.0).to(tl.float32)
        total += v
        squares += v * v
    mean = tl.sum(total, 0) / cols
    scale = 1 / tl.sqrt(tl.sum(squares, 0) / cols - mean * mean + eps)
    for start in range(0, cols, BLOCK):
        j = start + tl.arange(0, BLOCK)
        v = tl.load(x + j, j < cols, other=0.0).to(tl.float32)
        g = tl.load(gain + j, j < cols, other=0.0).to(tl.float32)
        tl.store(out + j, ((v - mean) * scale * g).to(tl.float16), j < cols)


ptx(triton_layernorm, {"x": "*fp16", "gain": "*bf16", "out": "*fp16", "cols": "i32", "eps": "fp32", "BLOCK": "constexpr"},
    {"BLOCK": 128}, divisible=("x", "gain", "out"), num_warps=2, line_info=True)
