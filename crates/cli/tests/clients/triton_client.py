"""Compiles kernels with Triton, whose last step is the ptxas that TRITON_PTXAS_PATH and TRITON_PTXAS_BLACKWELL_PATH
name, and writes cubins and inputs with launch files and the results that numpy computes: triton_client.py DIR"""

import sys
from pathlib import Path

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def scaled_add(x, y, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) * factor + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def row_max(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    tl.store(out + row, tl.max(v, 0))


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        sums = tl.dot(left, right, sums)
    tl.store(c + rows[:, None] * N + columns[None, :], sums.to(tl.float16))


folder = Path(sys.argv[1])
random = np.random.default_rng(7)


def kernel(function, signature, constants, grid, arguments, expected):
    """One kernel: `arguments` are arrays and numbers in order, `expected` is what the last array holds afterwards."""
    name = function.fn.__name__
    source = ASTSource(function, signature, constants)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    (folder / f"{name}.cubin").write_bytes(made.asm["cubin"])
    lines = [f'kernel = "{name}"', f"grid = {list(grid)}", f"block = [{32 * made.metadata.num_warps}, 1, 1]"]
    lines.append(f"shared = {made.metadata.shared}")
    last = max(i for i, a in enumerate(arguments) if isinstance(a, np.ndarray))
    for i, a in enumerate(arguments):
        lines.append("[[arg]]")
        if isinstance(a, np.ndarray):
            (folder / f"{name}.{i}.bin").write_bytes(a.tobytes())
            lines.append(f'buffer = {{ file = "{name}.{i}.bin" }}')
            if i == last:
                lines.append(f'out = "{name}.out"')
        elif isinstance(a, float):
            lines.append(f"f32 = {a}")
        else:
            lines.append(f"s32 = {a}")
    # Memory of Triton's own, which these kernels do not use.
    lines += ["[[arg]]", "u64 = 0"] * 2
    (folder / f"{name}.toml").write_text("\n".join(lines) + "\n")
    (folder / f"{name}.expected").write_bytes(expected.tobytes())


# Small whole numbers: every sum is exact, in whatever order.
x, y = (random.integers(-50, 50, 1000).astype(np.float32) for _ in range(2))
signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "factor": "fp32"}
kernel(scaled_add, signature, {"BLOCK": 256}, (4, 1, 1), [x, y, np.zeros_like(x), 1000, 3.0], x * 3 + y)

rows = random.integers(-1000, 1000, (5, 300)).astype(np.float32)
signature = {"x": "*fp32", "out": "*fp32", "n": "i32"}
kernel(row_max, signature, {"BLOCK": 512}, (5, 1, 1), [rows, np.zeros(5, np.float32), 300], rows.max(1))

m, n, k = 128, 64, 96
a, b = (random.integers(-4, 5, s).astype(np.float16) for s in ((m, k), (k, n)))
signature = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
blocks = {"BM": 64, "BN": 64, "BK": 32}
result = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
kernel(product, signature, blocks, (2, 1, 1), [a, b, np.zeros((m, n), np.float16), m, n, k], result)
