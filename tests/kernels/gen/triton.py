"""Launches of the Triton kernels. Each kernel takes two more addresses after its own arguments, for scratch memory that none of them uses."""

import re

from . import common
from .common import *
from .integers import M32, clamp, philox, s8
from .floats import random32


def run(name, case, grid, *args, **more):
    """A launch with the block size and the shared memory that the PTX asks for."""
    ptx = (common.ROOT / "triton" / f"{name}.ptx").read_text()
    threads = int(re.search(r"\.reqntid (\d+)", ptx)[1])
    shared = int(re.search(r"Launch with (\d+) bytes", ptx)[1])
    launch(name, case, grid, threads, *args, val("u64", 0), val("u64", 0), shared=shared, folder="triton", **more)


def make():
    r = rng("triton")
    elements(r)
    rows(r)
    integers(r)
    tiles(r)


def elements(r):
    # The element count is declared a multiple of 16.
    for case, n in (("basic", 1008), ("empty", 0)):
        x, y = ([random32(r, 5) for _ in range(max(n, 4))] for _ in "xy")
        want = pack("f", [f32(a + b) for a, b in zip(x[:n], y)])
        run("triton_add", case, 2, buf("x", pack("f", x)), buf("y", pack("f", y)), out("out", 4 * len(x), padded(want, 4 * len(x))), val("s32", n))
    n = len(SPECIAL32) * 16
    run("triton_add", "special", 1, buf("x", pack("f", SPECIAL32 * 16)), buf("y", pack("f", [v for v in SPECIAL32 for _ in range(16)])),
        out("out", 4 * n), val("s32", n))

    n = 300
    x = [random32(r, 3) for _ in range(n)]
    bits = [philox([i, 0, 0, 0], [1234, 0])[0] for i in range(n)]
    run("triton_dropout", "basic", 2, buf("x", pack("f", x)), out("out", 4 * n), out("bits", 4 * n, pack("I", bits)), val("s32", n), val("f32", 0.25),
        val("s32", 1234))

    n = 800
    x, g = ([r.uniform(-6, 6) for _ in range(n)] for _ in "xg")
    x[:6] = [0.0, -0.0, math.inf, -math.inf, math.nan, 65504.0]
    run("triton_gelu", "basic", 1, buf("x", pack("e", x)), buf("gate", pack("e", g)), out("out", 2 * n), val("s32", n))

    # The kernel divides by its guess, which for zero would become zero.
    x = [5, 1, 2, 3, 4, 15, 16, 17, 10 ** 6, 10 ** 12, (1 << 40) - 1] + [max(1, r.getrandbits(r.randrange(1, 44))) for _ in range(139)]
    roots = [math.isqrt(v) for v in x]
    real = [math.sqrt(v) * 0.5 + v % 7 for v in x]
    run("triton_newton", "basic", 2, buf("x", pack("q", x)), out("root", 1200, pack("q", roots)), out("real", 1200, pack("d", real)), val("s32", 150))


def rows(r):
    for case, count, cols in (("basic", 3, 200), ("one", 1, 1)):
        stride = 208
        x = [f32(r.uniform(-9, 9)) for _ in range(stride * count)]
        run("triton_softmax", case, count, buf("x", pack("f", x)), out("out", 4 * stride * count), val("s32", stride), val("s32", cols))
    for case, count, cols in (("basic", 2, 301), ("narrow", 3, 7)):
        x, g = [r.uniform(-4, 4) for _ in range(count * cols)], [f32_bits(bits_f32(f32(r.uniform(0.5, 2))) & 0xFFFF0000) for _ in range(cols)]
        run("triton_layernorm", case, count, buf("x", pack("e", x)), buf("gain", pack("H", [bits_f32(v) >> 16 for v in g])),
            out("out", 2 * count * cols), val("s32", cols), val("f32", 1e-5))

    cols = 90
    data = [[f32(r.uniform(-5, 5)) for _ in range(cols)], [0.0] * cols, [f32(v - 40) for v in range(cols)], [1e-20] * cols]
    q, packed, scales = [], [], []
    for row in data:
        top = max(map(abs, map(f32, row)))
        scale = directed(Fraction(top) / 127, "n") if top else 1.0
        line = []
        for v in row:
            d = directed(Fraction(f32(v)) / Fraction(scale), "n")
            line.append(int(math.floor(f32(d + 0.5)) if d >= 0 else math.ceil(f32(d - 0.5))))
        q += line
        packed += [line[i] >> 4 & 15 | (line[i + 1] >> 4 & 15) << 4 for i in range(0, cols, 2)]
        scales.append(scale)
    run("triton_quantize", "basic", 4, buf("x", pack("f", [v for row in data for v in row])), out("q", len(q), pack("b", q)),
        out("packed", len(packed), pack("B", packed)), out("scale", 16, pack("f", scales)), val("s32", cols))

    table = [f32(r.uniform(-2, 2)) for _ in range(12 * 32)]
    ids = [r.randrange(12) for _ in range(21)]
    cosines, sines = [f32(r.uniform(-1, 1)) for _ in range(21 * 16)], [f32(r.uniform(-1, 1)) for _ in range(21 * 16)]
    want = []
    for i, row in enumerate(ids):
        a, b = table[row * 32:row * 32 + 16], table[row * 32 + 16:row * 32 + 32]
        c, s = cosines[16 * i:16 * i + 16], sines[16 * i:16 * i + 16]
        want += [f32(f32(p * u) - f32(q * v)) for p, q, u, v in zip(a, b, c, s)] + [f32(f32(q * u) + f32(p * v)) for p, q, u, v in zip(a, b, c, s)]
    run("triton_gather", "basic", 2, buf("table", pack("f", table)), buf("ids", pack("q", ids)), buf("cosines", pack("f", cosines)),
        buf("sines", pack("f", sines)), out("out", 4 * len(want), pack("f", want)), val("s32", 21))


def integers(r):
    for case, n, grid in (("basic", 1700, 2), ("empty", 0, 1)):
        x = [s32(r.getrandbits(32)) for _ in range(max(n, 4))]
        mine, mixed = x[:n], 77
        for v in mine:
            mixed ^= v
        # Places past the end count as zero.
        low = min(mine + [5, 0])
        run("triton_sum", case, grid, buf("x", pack("i", x)), inout("total", pack("q", [3]), pack("q", [3 + sum(mine)])),
            inout("low", pack("i", [5]), pack("i", [low])), inout("mixed", pack("i", [77]), pack("i", [mixed])), val("s32", n))

    n = 700
    x = [min(63, int(r.expovariate(0.1))) for _ in range(n)]
    bins = [r.randrange(9) for _ in range(64)]
    run("triton_histogram", "basic", 2, buf("x", pack("i", x)), inout("bins", pack("i", bins), pack("i", [b + x.count(i) for i, b in enumerate(bins)])),
        val("s32", n))

    for case, count, cols in (("basic", 2, 480), ("short", 1, 5)):
        x = [s32(r.getrandbits(32)) for _ in range(count * cols)]
        sums, maxima = [], []
        for i in range(count):
            row = x[i * cols:(i + 1) * cols]
            # The reverse scan begins past the end, where zeros are read.
            filled = row + [0] * (512 - cols)
            sums += [sum(row[:j + 1]) for j in range(cols)]
            maxima += [max(filled[j:]) for j in range(cols)]
        run("triton_scan", case, count, buf("x", pack("i", x)), out("sums", 4 * len(x), pack("i", sums)), out("maxima", 4 * len(x), pack("i", maxima)),
            val("s32", cols))

    for case, n in (("basic", 128), ("ragged", 99)):
        x = [s32(r.choice(SPECIAL_I32) if r.random() < 0.4 else r.getrandbits(32)) for _ in range(2 * n)]
        up, down = [], []
        for i in range(2):
            s = sorted(x[i * n:i * n + n]) + [2147483647] * (128 - n)
            up += s[:n]
            down += s[::-1][:n]
        run("triton_sort", case, 2, buf("x", pack("i", x)), out("up", 8 * n, pack("i", up)), out("down", 8 * n, pack("i", down)), val("s32", n))


def tiles(r):
    count, cols = 13, 50
    x = [r.sample(range(-10 ** 9, 10 ** 9), cols) for _ in range(count)]
    x[3] = [-2147483648] * 49 + [-2147483647]
    x[4] = [7] * cols
    run("triton_argmax", "basic", 2, buf("x", pack("i", [v for row in x for v in row])), out("value", 4 * count, pack("i", map(max, x))),
        out("place", 4 * count, pack("i", [row.index(max(row)) for row in x])), val("s32", count), val("s32", cols))

    m, n, k = 19, 23, 21
    a, b = ([s8(r.getrandbits(8)) for _ in range(size)] for size in (m * k, k * n))
    want = [sum(a[i * k + p] * b[p * n + j] for p in range(k)) for i in range(m) for j in range(n)]
    run("triton_matmul", "basic", (2, 2), buf("a", pack("b", a)), buf("b", pack("b", b)), out("c", 4 * m * n, pack("i", want)), val("s32", m),
        val("s32", n), val("s32", k))

    # Both sizes are declared multiples of 16.
    h, w = 48, 32
    x = [f32(v) for v in range(h * w)]
    run("triton_transpose", "basic", (2, 1), buf("x", pack("f", x)), out("out", 4 * h * w, pack("f", [x[y * w + c] for c in range(w) for y in range(h)])),
        val("s32", h), val("s32", w))

    # Small integers: every product and sum is exact. The last row of tiles has rows beyond the matrix, the last column columns; k is no
    # multiple of the step.
    m, n, k = 83, 80, 80
    a, b = ([float(r.randrange(-4, 5)) for _ in range(size)] for size in (m * k, k * n))
    want = [sum(a[i * k + p] * b[p * n + j] for p in range(k)) for i in range(m) for j in range(n)]
    run("triton_dot", "basic", (2, 2), buf("a", pack("e", a)), buf("b", pack("e", b)), out("c", 4 * m * n, pack("f", want)), val("s32", m),
        val("s32", n), val("s32", k))

    n, d = 99, 64
    q, k, v = ([r.uniform(-1, 1) for _ in range(n * d)] for _ in "qkv")
    run("triton_attention", "basic", 2, buf("q", pack("e", q)), buf("k", pack("e", k)), buf("v", pack("e", v)), out("out", 4 * n * d), val("s32", n),
        val("f32", 1.4426950408889634 / 8))
