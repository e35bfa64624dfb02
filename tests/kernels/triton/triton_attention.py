"""Attention: softmax(Q K^T) V with a running maximum, both products on the tensor cores, the second with its left side in registers."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_attention(q, k, v, out, n, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    x = tl.load(q + i[:, None] * D + d[None, :], i[:, None] < n, other=0.0)
    most = tl.full([BM], -1.0e30, tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, n, BN):
        j = start + tl.arange(0, BN)
        y = tl.load(k + j[:, None] * D + d[None, :], j[:, None] < n, other=0.0)
        s = tl.dot(x, tl.trans(y)) * scale
        s = tl.where(j[None, :] < n, s, -1.0e30)
        now = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        fade = tl.exp2(most - now)
        total = total * fade + tl.sum(p, 1)
        z = tl.load(v + j[:, None] * D + d[None, :], j[:, None] < n, other=0.0)
        acc = tl.dot(p.to(tl.float16), z, acc * fade[:, None])
        most = now
    tl.store(out + i[:, None] * D + d[None, :], acc / total[:, None], i[:, None] < n)


ptx(triton_attention, {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp32", "n": "i32", "scale": "fp32", "BM": "constexpr", "BN": "constexpr",
    "D": "constexpr"}, {"BM": 64, "BN": 64, "D": 64}, divisible=("q", "k", "v", "out"))
