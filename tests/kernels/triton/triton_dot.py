"""Matrix product on the tensor cores: tiles of halves through shared memory, copied ahead, sums of a warpgroup's products."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_dot(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    p = tl.arange(0, BK)
    x = a + i[:, None] * k + p[None, :]
    y = b + p[:, None] * n + j[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, k, BK):
        left = tl.load(x, (i[:, None] < m) & (start + p[None, :] < k), other=0.0)
        right = tl.load(y, (start + p[:, None] < k) & (j[None, :] < n), other=0.0)
        acc = tl.dot(left, right, acc)
        x += BK
        y += BK * n
    tl.store(c + i[:, None] * n + j[None, :], acc, (i[:, None] < m) & (j[None, :] < n))


ptx(triton_dot, {"a": "*fp16", "b": "*fp16", "c": "*fp32", "m": "i32", "n": "i32", "k": "i32", "BM": "constexpr", "BN": "constexpr", "BK": "constexpr"},
    {"BM": 64, "BN": 64, "BK": 32}, divisible=("a", "b", "c", "n", "k"))
