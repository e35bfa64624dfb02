"""Launches of the first kernels: vector operations, reductions, scan, matrices, stencils, sorting, hashing, bits, control flow."""

import hashlib
import math
import struct
import zlib

from .common import *


def make():
    vectors()
    reductions()
    matrices()
    stencils()
    sorting()
    hashing()
    bits()
    flow()


def vectors():
    r = rng("saxpy")

    def saxpy(a, x, y):
        return [f32(f32(a * p) + q) for p, q in zip(x, y)]

    def fused(a, x, y):
        return [fma32(a, p, q) for p, q in zip(x, y)]

    x, y = ([f32(r.uniform(-100, 100)) for _ in range(300)] for _ in "xy")
    a = f32(-1.7)
    launch("saxpy", "basic", 3, 128, val("f32", a), buf("x", pack("f", x)), inout("y", pack("f", y), pack("f", saxpy(a, x, y))),
           val("s32", 300))
    launch("saxpy", "empty", 1, 32, val("f32", 2.0), buf("x", pack("f", [1.0])), inout("y", pack("f", [5.0]), pack("f", [5.0])), val("s32", 0))
    n = len(SPECIAL32)
    x = [v for v in SPECIAL32 for _ in range(n)]
    y = SPECIAL32 * n
    launch("saxpy", "special", (len(x) + 255) // 256, 256, val("f32", 1.0), buf("x", pack("f", x)), inout("y", pack("f", y)), val("s32", len(x)),
           note="every pair of special values: infinities, NaN, denormals, signed zeros")
    launch("saxpy", "infinite", 1, 64, val("f32", math.inf), buf("x", pack("f", SPECIAL32)), inout("y", pack("f", SPECIAL32)), val("s32", n))

    x, y = ([f32(r.uniform(-3, 3) * 2.0 ** r.randrange(-8, 8)) for _ in range(517)] for _ in "xy")
    a = f32(1.1)
    launch("grid_stride", "basic", 2, 64, val("f32", a), buf("x", pack("f", x)), inout("y", pack("f", y), pack("f", fused(a, x, y))),
           val("u32", 517))
    launch("grid_stride", "empty", 2, 64, val("f32", a), buf("x", pack("f", x[:1])), inout("y", pack("f", y[:1]), pack("f", y[:1])),
           val("u32", 0))
    x, y = [v for v in SPECIAL32 for _ in range(n)], SPECIAL32 * n
    launch("grid_stride", "special", 3, 96, val("f32", -1.5), buf("x", pack("f", x)), inout("y", pack("f", y)), val("u32", n * n))


def tree_sum(values):
    values = list(values)
    step = len(values) // 2
    while step:
        for t in range(step):
            values[t] = f32(values[t] + values[t + step])
        step //= 2
    return values[0]


def xor_sum(lanes):
    for d in (16, 8, 4, 2, 1):
        lanes = [f32(v + lanes[i ^ d]) for i, v in enumerate(lanes)]
    return lanes


def reductions():
    r = rng("reductions")
    for case, n, blocks in (("basic", 300, 3), ("full", 256, 2), ("one", 1, 1), ("empty", 0, 1)):
        x = [f32(r.uniform(-10, 10)) for _ in range(max(n, 1))]
        fill = x[:n] + [0.0] * (128 * blocks - n)
        sums = [tree_sum(fill[128 * b:128 * b + 128]) for b in range(blocks)]
        launch("reduce_shared", case, blocks, 128, buf("in", pack("f", x)), out("out", 4 * blocks, pack("f", sums)), val("s32", n))

    for case, n, grid, block in (("basic", 1000, 3, 128), ("warp", 77, 1, 32), ("ragged", 500, 2, 96), ("empty", 0, 1, 64)):
        x = [r.choice(SPECIAL_I32) if r.random() < 0.3 else r.getrandbits(32) for _ in range(max(n, 1))]
        sums, maxs = [], []
        for b in range(grid):
            mine = [s32(x[i]) for i in range(n) if i % (grid * block) // block == b]
            sums.append(sum(mine))
            maxs.append(max(mine, default=-1 << 31))
        launch("reduce_shuffle", case, grid, block, buf("in", pack("i", x)), out("sum", 8 * grid, pack("q", sums)),
               out("max", 4 * grid, pack("i", maxs)), val("s32", n))

    for case, n in (("basic", 333), ("empty", 0)):
        x = [s32(r.choice(SPECIAL_I32) if r.random() < 0.3 else r.getrandbits(32)) for _ in range(max(n, 1))]
        mine = x[:n]
        launch("reduce_atomic", case, 3, 128, buf("in", pack("i", x)), val("s32", n),
               inout("count", pack("I", [10]), pack("I", [10 + n])), inout("sum", pack("Q", [5]), pack("Q", [5 + sum(mine)])),
               inout("low", pack("i", [7]), pack("i", [min(mine + [7])])), inout("high", pack("i", [-7]), pack("i", [max(mine + [-7])])),
               inout("fsum", pack("f", [0.5]), pack("f", [0.5 + sum(v & 15 for v in mine) * 0.25])))

    for case, n in (("basic", 700), ("wrap", 256), ("one", 1), ("empty", 0)):
        x = [r.getrandbits(32) if case == "wrap" else r.randrange(1000) for _ in range(max(n, 1))]
        blocks = max(1, (n + 255) // 256)
        sums = []
        for i in range(n):
            sums.append((x[i] + (sums[-1] if i % 256 else 0)) & 0xFFFFFFFF)
        size = 4 * max(n, 1)
        launch("scan", case, blocks, 256, buf("in", pack("I", x)), out("out", size, padded(pack("I", sums), size)), val("s32", n))


def matrices():
    r = rng("matrices")
    for case, rows, cols in (("basic", 37, 21), ("square", 32, 32), ("row", 1, 19), ("special", 7, len(SPECIAL32))):
        x = SPECIAL32 * rows if case == "special" else [f32(r.uniform(-9, 9)) for _ in range(rows * cols)]
        t = [x[y * cols + c] for c in range(cols) for y in range(rows)]
        launch("transpose", case, ((cols + 15) // 16, (rows + 15) // 16), (16, 4), buf("in", pack("f", x)),
               out("out", len(x) * 4, pack("f", t)), val("s32", rows), val("s32", cols))

    for case, m, n, k, alpha, beta in (("basic", 33, 18, 21, 1.5, -0.5), ("square", 16, 16, 32, 1.0, 0.0), ("no_depth", 5, 7, 0, 2.0, 3.0)):
        a, b, c = ([f32(r.uniform(-2, 2)) for _ in range(max(size, 1))] for size in (m * k, k * n, m * n))
        want = []
        for i in range(m):
            for j in range(n):
                total = 0.0
                for p in range((k + 15) // 16 * 16):
                    total = f32(total + (f32(a[i * k + p] * b[p * n + j]) if p < k else 0.0))
                want.append(f32(f32(alpha * total) + f32(beta * c[i * n + j])))
        launch("sgemm", case, ((n + 15) // 16, (m + 15) // 16), (16, 16), val("s32", m), val("s32", n), val("s32", k), val("f32", alpha),
               buf("a", pack("f", a)), buf("b", pack("f", b)), val("f32", beta), inout("c", pack("f", c), pack("f", want)))
    a, b, c = ([r.choice(SPECIAL32[:24]) for _ in range(64)] for _ in "abc")
    launch("sgemm", "special", 1, (16, 16), val("s32", 8), val("s32", 8), val("s32", 8), val("f32", 1.0), buf("a", pack("f", a)),
           buf("b", pack("f", b)), val("f32", 1.0), inout("c", pack("f", c)))

    m, n, k = 64, 32, 24
    a, b = ([f32(r.uniform(-2, 2)) for _ in range(size)] for size in (m * k, k * n))
    want = []
    for i in range(m):
        for j in range(n):
            total = 0.0
            for p in range(k):
                total = fma32(a[i * k + p], b[p * n + j], total)
            want.append(total)
    launch("sgemm_reg", "basic", (n // 32, m // 32), 64, val("s32", n), val("s32", k), buf("a", pack("f", a)), buf("b", pack("f", b)),
           out("c", m * n * 4, pack("f", want)))

    for case, rows, cols in (("basic", 11, 75), ("narrow", 5, 3), ("no_columns", 3, 0)):
        a, x = ([f32(r.uniform(-2, 2)) for _ in range(max(size, 1))] for size in (rows * cols, cols))
        want = []
        for i in range(rows):
            lanes = [0.0] * 32
            for j in range(cols):
                lanes[j % 32] = f32(lanes[j % 32] + f32(a[i * cols + j] * x[j]))
            want.append(xor_sum(lanes)[0])
        launch("gemv", case, (rows * 32 + 127) // 128, 128, buf("a", pack("f", a)), buf("x", pack("f", x)), out("y", rows * 4, pack("f", want)),
               val("s32", rows), val("s32", cols))


def stencils():
    r = rng("stencils")
    for case, w, h in (("basic", 37, 19), ("thin", 1, 9), ("one", 1, 1)):
        x = [f32(r.uniform(-5, 5)) for _ in range(w * h)]
        c0, c1 = f32(0.6), f32(0.1)
        want = []
        for j in range(h):
            for i in range(w):
                t = f32(x[j * w + max(i - 1, 0)] + x[j * w + min(i + 1, w - 1)])
                t = f32(f32(t + x[max(j - 1, 0) * w + i]) + x[min(j + 1, h - 1) * w + i])
                want.append(f32(f32(c0 * x[j * w + i]) + f32(c1 * t)))
        launch("stencil2d", case, ((w + 15) // 16, (h + 7) // 8), (16, 8), buf("in", pack("f", x)), out("out", len(x) * 4, pack("f", want)),
               val("s32", w), val("s32", h), val("f32", c0), val("f32", c1))

    for case, nx, ny, nz in (("basic", 9, 7, 5), ("flat", 6, 5, 1), ("special", 5, 4, 4)):
        n = nx * ny * nz
        x = [SPECIAL64[i % len(SPECIAL64)] for i in range(n)] if case == "special" else [r.uniform(-5, 5) for _ in range(n)]
        want = None
        if case != "special":
            want = []
            for i in range(n):
                a, b, c = i % nx, i // nx % ny, i // nx // ny
                if 0 < a < nx - 1 and 0 < b < ny - 1 and 0 < c < nz - 1:
                    sy, sz = nx, nx * ny
                    want.append(x[i - 1] + x[i + 1] + x[i - sy] + x[i + sy] + x[i - sz] + x[i + sz] - 5.9 * x[i])
                else:
                    want.append(x[i])
            want = pack("d", want)
        launch("stencil3d", case, ((nx + 7) // 8, (ny + 3) // 4, (nz + 3) // 4), (8, 4, 4), buf("in", pack("d", x)), out("out", n * 8, want),
               val("s32", nx), val("s32", ny), val("s32", nz), val("f64", 5.9))


def sorting():
    r = rng("sorting")
    for case, n in (("basic", 1500), ("one_value", 500), ("empty", 0)):
        x = bytes(7 if case == "one_value" else min(255, int(r.expovariate(0.02))) for _ in range(max(n, 1)))
        bins = [r.randrange(5) for _ in range(256)]
        want = [b + x[:n].count(i) for i, b in enumerate(bins)]
        launch("histogram", case, 3, 96, buf("in", x), val("u32", n), inout("bins", pack("I", bins), pack("I", want)))

    for case, n, grid, block in (("basic", 256, 2, 128), ("ragged", 100, 1, 128), ("small", 5, 1, 8), ("empty", 0, 1, 32)):
        x = [s32(r.choice(SPECIAL_I32) if r.random() < 0.4 else r.getrandbits(32)) for _ in range(max(n, 1))]
        want = []
        for b in range(0, n, block):
            want += sorted(x[b:min(b + block, n)])
        launch("bitonic_sort", case, grid, block, inout("data", pack("i", x), pack("i", want or x)), val("s32", n), shared=4 * block)


def hashing():
    r = rng("hashing")
    for case, lengths in (("basic", [0, 1, 3, 55, 56, 63, 64, 65, 119, 120, 200]), ("one", [3])):
        messages = [b"abc" if case == "one" else r.randbytes(n) for n in lengths]
        data, counts, firsts = b"", [], []
        for m in messages:
            p = m + b"\x80" + bytes(-(len(m) + 9) % 64) + struct.pack(">Q", 8 * len(m))
            firsts.append(len(data) // 64)
            counts.append(len(p) // 64)
            data += p
        want = b"".join(hashlib.sha256(m).digest() for m in messages)
        launch("sha256", case, 1, 32, buf("blocks", data), buf("counts", pack("I", counts)), buf("firsts", pack("I", firsts)),
               out("digest", len(want), want), val("s32", len(messages)))

    for case, lengths in (("basic", [0, 1, 4, 9, 31, 100, 64, 2, 77, 128]), ("check", [9])):
        parts = [b"123456789"] if case == "check" else [r.randbytes(n) for n in lengths]
        offsets = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
        launch("crc32", case, 1, 64, buf("in", b"".join(parts)), buf("offsets", pack("I", offsets)),
               out("out", 4 * len(parts), pack("I", [zlib.crc32(p) for p in parts])), val("u32", len(parts)))


M32, M64 = 0xFFFFFFFF, (1 << 64) - 1


def clz(v, width):
    return width - v.bit_length()


def reverse(v, width):
    return int(format(v, f"0{width}b")[::-1], 2)


def bfe(v, pos, length, signed):
    pos, length = pos & 255, length & 255
    if length == 0:
        return 0
    if signed:
        last = min(pos + length - 1, 31)
        sign = v >> last & 1
        field = sum((v >> (pos + i) & 1 if pos + i <= 31 else sign) << i for i in range(min(length, 32)))
        return (field | (M32 << length if sign and length < 32 else 0)) & M32
    return v >> pos & ((1 << min(length, 32)) - 1) if pos < 32 else 0


def bfi(a, b, pos, length):
    for i in range(length):
        if pos + i < 32:
            b = b & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
    return b


def byte_perm(a, b, selector):
    v = (b << 32 | a).to_bytes(8, "little")
    return int.from_bytes(bytes(v[selector >> 4 * i & 7] for i in range(4)), "little")


def bits_reference(a, b):
    d = b << 32 | a
    sd = s64(d)
    o = [a.bit_count(), clz(a, 32), reverse(a, 32), (a & -a).bit_length(), byte_perm(a, b, b), a & b | ~a & 0x0F0FF0F0, a ^ b ^ a >> 3,
         d << (b & 31) >> 32, d >> (a & 31), d << min(b & 63, 32) >> 32, d >> min(a & 63, 32), bfe(a, b, b >> 8, False),
         bfe(a, b, b >> 8, True), bfi(a, b, b >> 16 & 63, a & 63), d.bit_count(), clz(d, 64), (d & -d).bit_length(),
         s32(a) >> (b & 31), a << (b & 31) | a >> (b & 31), ~(a | b)]
    return o, [reverse(d, 64), (d << (a & 63)) ^ (sd >> (b & 63))]


def bits():
    r = rng("bits")
    cases = {"basic": [(r.getrandbits(32), r.getrandbits(32)) for _ in range(75)],
             "special": [(a, b) for a in SPECIAL_I32[::2] + [0x80000000] for b in SPECIAL_I32[::3] + [0x00000820, 0xFF1F001F, 0x00202000]]}
    for case, pairs in cases.items():
        want, want64 = [], []
        for a, b in pairs:
            o, o64 = bits_reference(a, b)
            want += o
            want64 += o64
        n = len(pairs)
        launch("bits", case, (n + 63) // 64, 64, buf("in", pack("I", [v for p in pairs for v in p])), out("out", 80 * n, pack("I", want)),
               out("out64", 16 * n, pack("Q", want64)), val("s32", n))


def flow():
    r = rng("flow")
    w, h, limit = 30, 20, 60
    x0, y0, dx, dy = f32(-2.2), f32(-1.25), f32(0.1), f32(0.125)
    want = []
    for py in range(h):
        for px in range(w):
            cx, cy, x, y, i = f32(x0 + f32(px * dx)), f32(y0 + f32(py * dy)), 0.0, 0.0, 0
            while i < limit:
                xx, yy = f32(x * x), f32(y * y)
                if f32(xx + yy) > 4.0:
                    break
                y = f32(f32(f32(2.0 * x) * y) + cy)
                x = f32(f32(xx - yy) + cx)
                i += 1
            want.append(i)
    launch("mandelbrot", "basic", (4, 5), (8, 4), out("out", 2 * w * h, pack("H", want)), val("s32", w), val("s32", h), val("f32", x0),
           val("f32", y0), val("f32", dx), val("f32", dy), val("s32", limit))
    launch("mandelbrot", "no_steps", (1, 1), (8, 4), out("out", 24, bytes(24)), val("s32", 4), val("s32", 3), val("f32", x0), val("f32", y0),
           val("f32", dx), val("f32", dy), val("s32", 0))

    machine(r)
    values = [0, 1, 2, 3, 4, 9, 25, 49, 97, 121, 127, 1024, 1009, 2003, 65535] + [r.randrange(1, 3000) for _ in range(60)]
    want = [divergent(values, i) for i in range(len(values))]
    launch("divergent_loops", "basic", 3, 32, buf("in", pack("I", values)), out("out", 4 * len(values), pack("I", want)), val("s32", len(values)))

    x = [s32(v) for v in SPECIAL_I32] + [s32(r.getrandbits(32)) for _ in range(50)]
    calls = [device_calls(v, i) for i, v in enumerate(x)]
    n = len(x)
    launch("device_calls", "basic", 3, 32, buf("in", pack("i", x)), out("a", 4 * n, pack("i", [c[0] for c in calls])),
           out("b", 4 * n, pack("f", [c[1] for c in calls])), out("c", 8 * n, pack("q", [c[2] for c in calls])), val("s32", n))

    x = list(range(20)) + [r.getrandbits(32) for _ in range(13)]
    want = []
    for v in x:
        want += [fib(v % 10), ackermann(v & 1, v & 7) + ackermann(2, v & 3), is_even(v & 15)]
    launch("recursion", "basic", 2, 32, buf("in", pack("I", x)), out("out", 12 * len(x), pack("I", want)), val("s32", len(x)))


def machine(r):
    programs = []
    for _ in range(40):
        p = []
        for _ in range(r.randrange(1, 30)):
            p += [r.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 200]), r.randrange(256)]
        programs.append(p + [11, 0, 11, 0])
    programs.append([8, 0, 0, 1] * 20 + [11, 0, 11, 0])
    starts, code = [], []
    for p in programs:
        starts.append(len(code))
        code += p
    for case, limit in (("basic", 1000), ("cut", 7), ("no_steps", 0)):
        want = [v for i, p in enumerate(programs) for v in run_program(i, p, limit)]
        launch("switch_brx", case, 2, 32, buf("code", bytes(code)), buf("starts", pack("I", starts)), out("out", 8 * len(programs), pack("i", want)),
               val("s32", len(programs)), val("s32", limit))


def run_program(p, code, limit):
    acc, tmp, steps, pc = p, 1, 0, 0
    while steps < limit:
        op, arg = code[pc], code[pc + 1]
        pc += 2
        if op == 0: acc += arg
        elif op == 1: acc -= arg
        elif op == 2: acc *= arg
        elif op == 3: acc ^= arg << 8
        elif op == 4: tmp = acc
        elif op == 5: acc += tmp
        elif op == 6: acc <<= arg & 31
        elif op == 7: acc >>= arg & 31
        elif op == 8: pc += 2 if acc < 0 else 0
        elif op == 9: acc = min(acc, tmp)
        elif op == 10: acc, tmp = -acc, tmp ^ 0x55
        elif op == 11: break
        elif op == 12: acc = (acc & M32).bit_count() + tmp
        elif op == 13: acc = reverse(acc & M32, 32)
        elif op == 14: acc, tmp = tmp, acc
        elif op == 15: acc = acc // arg if acc >= 0 and arg else -(-acc // arg) if arg else acc
        elif op == 16: tmp = acc & arg
        elif op == 17: acc |= arg << 16
        elif op == 18: acc = max(acc, tmp)
        elif op == 19: acc = clz(acc & M32, 32) - arg
        elif op == 20: acc = s64(acc * 0x10001) >> 8
        else: acc ^= 0x5A5A5A5A
        acc, tmp = s32(acc), s32(tmp)
        steps += 1
    return acc, steps


def divergent(values, i):
    v = values[i]
    if v == 0:
        return M32
    factor = next((d for d in range(2, math.isqrt(v) + 1) if v % d == 0 and (d == 2 or d & 1)), v)
    steps, c, g = 0, v, 0
    while c != 1 and steps < 200:
        c = 3 * c + 1 if c & 1 else c >> 1
        steps += 1
    for a in range(4):
        g += math.gcd(v, values[(i + a) % len(values)])
        if g > 1000:
            break
    return (factor * 31 + steps * 7 + g) & M32


def mix(a, b):
    return s32((a ^ s32(b << 5)) * 0x9E3779B1 + b)


def combine(x, y, scale):
    return [mix(x[0], y[0]), f32(x[1] + f32(y[1] * f32(scale))), s64(x[2] - y[2] * 3)]


def device_calls(v, i):
    x, y = [v, float(v & 1023), v * 5], [i, 0.5 * i, -7 * i]
    q = combine(x, y, 0.25)
    if v & 1:
        less = s32((v >> 3) << 16) >> 16
        q[0], q[2] = s32(q[0] + (v & 255)), q[2] - less
    return combine(q, x, 2.0)


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def ackermann(m, n):
    if m == 0:
        return n + 1
    return ackermann(m - 1, ackermann(m, n - 1) if n else 1)


def is_even(n):
    return 1 if n == 0 else s32(is_odd(n - 1) * (n | 1)) ^ 2


def is_odd(n):
    return 0 if n == 0 else is_even(n - 1) + n
