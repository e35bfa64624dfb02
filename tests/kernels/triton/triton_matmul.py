"""Matrix product without tensor cores: products of a broadcast tile summed along the inner axis, in a loop over k."""

import triton
import triton.language as tl

from to_ptx import ptx


@triton.jit
def triton_matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.int32)
    for start in range(0, k, BK):
        p = start + tl.arange(0, BK)
        x = tl.load(a + i[:, None] * k + p[None, :], (i[:, None] < m) & (p[None, :] < k), other=0)
        y = tl.load(b + p[:, None] * n + j[None, :], (p[:, None] < k) & (j[None, :] < n), other=0)
        acc += tl.sum(x[:, :, None].to(tl.int32) * y[None, :, :].to(tl.int32), 1)
    tl.store(c + i[:, None] * n + j[None, :], acc, (i[:, None] < m) & (j[None, :] < n))


ptx(triton_matmul, {"a": "*i8", "b": "*i8", "c": "*i32", "m": "i32", "n": "i32", "k": "i32", "BM": "constexpr", "BN": "constexpr", "BK": "constexpr"},
    {"BM": 16, "BN": 16, "BK": 8})
