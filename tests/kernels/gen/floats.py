"""Launches of floating-point kernels. What PTX defines to the bit has an expected output; approximate functions have inputs only."""

from .common import *
from .integers import clamp, s8, s16
from .basic import xor_sum


def make():
    r = rng("floats")
    float_div(r)
    float_misc(r)
    doubles(r)
    convert(r)
    half_math(r)
    approximate(r)
    exact(r)
    neural(r)


def random32(r, spread=20):
    return f32(r.uniform(1, 2) * 2.0 ** r.randrange(-spread, spread) * r.choice([-1, 1]))


def float_div(r):
    pairs = [(random32(r), random32(r)) for _ in range(60)] + [(1.0, 3.0), (4.0, 2.0), (f32(1 / 3), f32(1 / 7)), (16777215.0, 16777213.0)]
    want = []
    for a, b in pairs:
        q, inverse, root = Fraction(a) / Fraction(b), 1 / Fraction(a), sqrt_sticky(abs(a))
        want += [directed(v, m) for v in (q, inverse, root) for m in "nzdu"] + [directed(v, "n") for v in (q, inverse, root)]
    n = len(pairs)
    launch("float_div", "basic", 2, 32, buf("in", pack("f", [v for p in pairs for v in p])), out("out", n * 60, pack("f", want)), val("s32", n))
    tiny = [(f32_bits(r.getrandbits(23) | 1), random32(r)) for _ in range(20)] + [(random32(r), f32_bits(0x7E000000 + r.getrandbits(24))) for _ in range(20)]
    for case, pairs in (("special", [(a, b) for a in SPECIAL32 for b in SPECIAL32[::2]]), ("denormal", tiny)):
        launch("float_div", case, (len(pairs) + 63) // 64, 64, buf("in", pack("f", [v for p in pairs for v in p])), out("out", len(pairs) * 60),
               val("s32", len(pairs)))


def compare(a, b, ordered):
    return sum(bool(v) << i for i, v in enumerate(ordered))


def float_misc(r):
    triples = [(random32(r, 6), random32(r, 6), random32(r, 10)) for _ in range(70)]
    triples += [(2.5, -2.5, 0.5), (-0.5, 0.5, 1.0), (1.0, -1.0, 0.0), (0.75, 0.25, -1.0), (8388609.0, 0.5, 1.0)]
    want, masks = [], []
    for a, b, c in triples:
        x, y, z = Fraction(a), Fraction(b), Fraction(c)
        exact = x + y == 0, x - y == 0
        # An exact zero sum is +0 but when rounding down.
        sums = [directed(x + y, m) if not exact[0] else (-0.0 if m == "d" else 0.0) for m in "nzdu"]
        saturate = lambda v: min(max(v, 0.0), 1.0)
        want += sums + [directed(x * y, m) for m in "nzdu"]
        want += [directed(x * y + z, m) if x * y + z else (-0.0 if m == "d" else 0.0) for m in "nzdu"]
        want += [sums[0], directed(x * y, "n"), saturate(sums[0]), saturate(directed(x * y, "z")), -0.0 if exact[1] else directed(x - y, "d")]
        f = directed(x * y + z, "n") if x * y + z else 0.0
        want += [f, saturate(f), min(a, b), max(a, b), min(a, b), max(a, b), math.copysign(b, a)]
        want += [math.copysign(float(v), a) for v in (round(a), math.floor(a), math.ceil(a), math.trunc(a))]
        want += [f32(-abs(a) - b), saturate(a)]
        masks.append(sum(int(v) << i for i, v in enumerate(
            [a < b, a <= b, a > b, a >= b, a == b, a != b, not a < b, not a >= b, False, False, a < b or c > 0, b > c, a < 0])))
    n = len(triples)
    launch("float_misc", "basic", 3, 32, buf("in", pack("f", [v for t in triples for v in t])), out("out", 120 * n, pack("f", want)),
           out("compare", 4 * n, pack("I", masks)), val("s32", n))
    s = SPECIAL32
    triples = [(a, b, s[(i * 7 + j * 3) % len(s)]) for i, a in enumerate(s) for j, b in enumerate(s[::2])]
    n = len(triples)
    launch("float_misc", "special", (n + 63) // 64, 64, buf("in", pack("f", [v for t in triples for v in t])), out("out", 120 * n),
           out("compare", 4 * n), val("s32", n))


def doubles(r):
    def d64(x, mode):
        return directed(x, mode, 53, -1074)

    triples = [tuple(r.uniform(1, 2) * 2.0 ** r.randrange(-30, 30) * r.choice([-1, 1]) for _ in "abc") for _ in range(60)]
    triples += [(1.5, 2.5, -1.0), (3.0, 3.0, 7.0), (0.1, 0.2, -0.02), (-7.5, 3.5, 2.0)]
    want, masks = [], []
    for a, b, c in triples:
        x, y, z = Fraction(a), Fraction(b), Fraction(c)
        want += [a + b, a - b, a * b, fma64(a, b, c), a / b, math.sqrt(abs(a)), 1 / b, min(a, b), max(a, b)]
        want += [math.copysign(float(v), s) for v, s in ((math.floor(a), a), (math.ceil(b), b), (math.trunc(a), a), (round(b), b))]
        want += [-abs(c), d64(x + y, "z"), d64(x * y, "u"), d64(x * y + z, "d"), d64(x / y, "z"), d64(sqrt_sticky(abs(b)), "u"),
                 a if a > b else c if a == b else -b]
        masks.append((a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a >= b) << 4 | (not a > b) << 5)
    n = len(triples)
    launch("doubles", "basic", 2, 32, buf("in", pack("d", [v for t in triples for v in t])), out("out", 160 * n, pack("d", want)),
           out("compare", 4 * n, pack("I", masks)), val("s32", n))
    s = SPECIAL64
    triples = [(a, b, s[(i * 7 + j * 3) % len(s)]) for i, a in enumerate(s) for j, b in enumerate(s)]
    n = len(triples)
    launch("doubles", "special", (n + 63) // 64, 64, buf("in", pack("d", [v for t in triples for v in t])), out("out", 160 * n),
           out("compare", 4 * n), val("s32", n))


ROUND = {"n": round, "z": math.trunc, "d": math.floor, "u": math.ceil}


def convert(r):
    reals = [r.uniform(-1, 1) * 2.0 ** r.randrange(0, 70) for _ in range(40)]
    reals += [0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 255.5, 127.5, -128.5, 65535.5, 2147483647.5, -2147483648.5, 4294967295.5, 1e19, -1e19, 1e-30]
    integers = [s64(r.getrandbits(64) >> r.randrange(60)) * r.choice([-1, 1]) for _ in range(len(reals) - 6)]
    integers += [0, -1, (1 << 63) - 1, -(1 << 63), (1 << 24) + 1, (1 << 53) + 1]
    o32, o64, of, od = [], [], [], []
    for d, l in zip(reals, map(s64, integers)):
        f, ul = f32(d), l & (1 << 64) - 1

        def to(v, bits, signed):
            return [clamp(ROUND[m](v), bits, signed) for m in "nzdu"]

        o32 += to(f, 32, True) + to(f, 32, False) + to(d, 32, True) + to(d, 32, False)
        o32 += [clamp(math.trunc(f), 16), clamp(round(d), 16, False), clamp(math.trunc(f), 8), clamp(l, 8, False)]
        o64 += to(f, 64, True) + to(f, 64, False) + to(d, 64, True) + to(d, 64, False) + [s8(l), l & 255, s16(l), s32(l)]
        for v in (l, ul, s32(l), l & 0xFFFFFFFF, Fraction(d)):
            of += [directed(v, m) for m in "nzdu"]
        of += [s8(l), l & 255, s16(l), l & 0xFFFF]
        for v in (l, ul):
            od += [directed(v, m, 53, -1074) for m in "nzdu"]
        od += [f, s32(l), l & 0xFFFFFFFF, s16(l)]
    n = len(reals)
    launch("convert", "basic", 2, 32, buf("in", pack("d", reals)), buf("in64", pack("q", integers)), out("out32", 80 * n, pack("i", o32)),
           out("out64", 160 * n, pack("q", o64)), out("outf", 96 * n, pack("f", of)), out("outd", 96 * n, pack("d", od)), val("s32", n))
    n = len(SPECIAL64)
    launch("convert", "special", 1, 32, buf("in", pack("d", SPECIAL64)), buf("in64", pack("q", integers[-n:])), out("out32", 80 * n),
           out("out64", 160 * n), out("outf", 96 * n), out("outd", 96 * n), val("s32", n))


def half_math(r):
    n = 40
    a, b = ([r.randrange(-4095, 4095) / 1024 or 1.0 for _ in range(2 * n)] for _ in "ab")
    a, b = (unpack("e", pack("e", v)) for v in (a, b))
    f = [random32(r, 8) for _ in range(n)]
    for case in ("basic", "special"):
        want, converted = [], []
        if case == "special":
            h = [struct.unpack("<e", struct.pack("<H", v))[0] for v in (0, 0x8000, 1, 0x83FF, 0x400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00)]
            a, b = [h[i % 12] for i in range(2 * n)], [h[i * 5 // 3 % 12] for i in range(2 * n)]
            f = [(SPECIAL32 + [65504.0, 65519.0, 65520.0, 6e-8, 3e-8, 1e-7, 6.1e-5])[i % 35] for i in range(n)]
            f[:4] = [1.0, -2.0, 70000.0, 3.5]
        else:
            for i in range(n):
                x, y = a[2 * i:2 * i + 2], b[2 * i:2 * i + 2]
                want += [x[0] + y[0], x[1] + y[1], x[0] * y[0], x[1] * y[1], x[0] * y[0] + x[0], x[1] * y[1] + x[1], x[0] - y[0], x[1] - y[1]]
                want += [max(x[0], y[0]), max(x[1], y[1]), x[0] + y[1], x[1] * y[0]]
                want += [x[1], x[0]] if x[0] < y[0] else [-y[0], -y[1]]
                want += [x[0] * y[1]] * 2
                converted += [struct.unpack("<H", struct.pack("<e", directed(f[i], m, 11, -24)))[0] for m in "nzdu"]

                def bf16(v, mode="n"):
                    return directed(v, mode, 8, -133)

                def bits(v):
                    return bits_f32(v) >> 16

                p = bf16(f[i])
                q = Fraction(p) * Fraction(p) + Fraction(p)
                converted += [bits(p), bits(bf16(f[i], "z")), bits(bf16(q) if q else 0.0), bits(p * 0.5), round(x[0]),
                              struct.unpack("<H", struct.pack("<e", int(f[i & 3]) + i))[0]]
        launch("half_math", case, 2, 32, buf("a", pack("e", a)), buf("b", pack("e", b)), out("out", 32 * n, pack("e", want) if want else None),
               buf("f", pack("f", f)), out("converted", 20 * n, pack("H", converted) if converted else None), val("s32", n))


def approximate(r):
    x = [f32(r.uniform(-20, 20)) for _ in range(40)] + [f32(v * math.pi / 4) for v in range(-8, 9)]
    for case, v in (("basic", x), ("special", SPECIAL32), ("wide", [random32(r, 120) for _ in range(60)])):
        n = len(v)
        launch("approx", case, (n + 31) // 32, 32, buf("in", pack("f", v)), out("out", 60 * n), val("s32", n))
        launch("sincos_full", case, (n + 31) // 32, 32, buf("in", pack("f", v)), out("sine", 4 * n), out("cosine", 4 * n), val("s32", n))
        launch("gelu", case, (n + 31) // 32, 32, buf("in", pack("f", v)), out("by_erf", 4 * n), out("by_tanh", 4 * n), val("s32", n))

    for n in (45, 1):
        bodies = [f32(r.uniform(-1, 1)) if i % 4 < 3 else f32(r.uniform(0.1, 2)) for i in range(4 * n)]
        launch("nbody", "basic" if n > 1 else "one", (n + 31) // 32, 32, buf("bodies", pack("f", bodies)), out("force", 16 * n), val("s32", n),
               val("f32", 0.01))


def exact(r):
    for case, count in (("basic", 2), ("impulse", 1)):
        x = [(f32(r.uniform(-1, 1)), f32(r.uniform(-1, 1))) for _ in range(64 * count)]
        if case == "impulse":
            x = [(1.0, 0.0)] + [(0.0, 0.0)] * 63
        twiddle = [(f32(math.cos(-math.pi * k / 32)), f32(math.sin(-math.pi * k / 32))) for k in range(32)]
        want = []
        for b in range(count):
            s = [None] * 64
            for i in range(64):
                s[int(f"{i:06b}"[::-1], 2)] = x[64 * b + i]
            half = 1
            while half < 64:
                for t in range(32):
                    k = t % half
                    i = (t - k) * 2 + k
                    w, p, q = twiddle[k * (32 // half)], s[i], s[i + half]
                    m = (f32(f32(q[0] * w[0]) - f32(q[1] * w[1])), f32(f32(q[0] * w[1]) + f32(q[1] * w[0])))
                    s[i] = (f32(p[0] + m[0]), f32(p[1] + m[1]))
                    s[i + half] = (f32(p[0] - m[0]), f32(p[1] - m[1]))
                half *= 2
            want += s
        flat = lambda v: pack("f", [c for p in v for c in p])
        launch("fft", case, count, 32, buf("in", flat(x)), buf("twiddle", flat(twiddle)), out("out", 512 * count, flat(want)))

    weights = [[[[1, 2, 1], [0, 0, 0], [-1, -2, -1]], [[.5, 0, -.5], [1, 0, -1], [.5, 0, -.5]], [[0, 1, 0], [1, -4, 1], [0, 1, 0]]],
               [[[.25, .5, .25], [.5, 1, .5], [.25, .5, .25]], [[0, 0, 0], [0, 3, 0], [0, 0, 0]], [[1, 0, 0], [0, -2, 0], [0, 0, 1]]]]
    for case, w, h in (("basic", 13, 10), ("one", 1, 1)):
        x = [f32(r.uniform(-4, 4)) for _ in range(3 * w * h)]
        want = []
        for o in range(2):
            for py in range(h):
                for px in range(w):
                    total = 0.0
                    for c in range(3):
                        for dy in range(3):
                            for dx in range(3):
                                i, j = px + dx - 1, py + dy - 1
                                v = x[(c * h + j) * w + i] if 0 <= i < w and 0 <= j < h else 0.0
                                total = f32(total + f32(weights[o][c][dy][dx] * v))
                    want.append(max(total, 0.0))
        launch("conv2d", case, ((w + 7) // 8, (h + 7) // 8, 2), (8, 8), buf("in", pack("f", x)), out("out", 8 * w * h, pack("f", want)),
               val("s32", w), val("s32", h))

    rows, cols = 45, 30
    counts = [r.choice([0, 0, 1, 3, 9]) for _ in range(rows)]
    starts = [sum(counts[:i]) for i in range(rows + 1)]
    columns, values = [r.randrange(cols) for _ in range(starts[-1])], [r.uniform(-5, 5) for _ in range(starts[-1])]
    x = [r.uniform(-5, 5) for _ in range(cols)]
    want = []
    for i in range(rows):
        total = 0.0
        for j in range(starts[i], starts[i + 1]):
            total += values[j] * x[columns[j]]
        want.append(total)
    launch("spmv_csr", "basic", 2, 32, buf("row_start", pack("q", starts)), buf("column", pack("i", columns)), buf("value", pack("d", values)),
           buf("x", pack("d", x)), out("y", 8 * rows, pack("d", want)), val("s32", rows))


def neural(r):
    for case, rows, cols in (("basic", 3, 100), ("narrow", 2, 5)):
        x = [f32(r.uniform(-8, 8)) for _ in range(rows * cols)]
        launch("softmax", case, rows, 64, buf("in", pack("f", x)), out("out", 4 * len(x)), val("s32", cols))
        g, b = ([f32(r.uniform(-2, 2)) for _ in range(cols)] for _ in "gb")
        eps, want = f32(1e-5), []
        for i in range(rows):
            row = x[i * cols:(i + 1) * cols]

            def total(values):
                lanes = [0.0] * 32
                for j, v in enumerate(values):
                    lanes[j % 32] = f32(lanes[j % 32] + v)
                return xor_sum(lanes)[0]

            mean = directed(Fraction(total(row)) / cols, "n")
            squares = total([f32(f32(v - mean) * f32(v - mean)) for v in row])
            scale = directed(1 / Fraction(f32(math.sqrt(f32(directed(Fraction(squares) / cols, "n") + eps)))), "n")
            want += [f32(f32(f32(f32(v - mean) * scale) * g[j]) + b[j]) for j, v in enumerate(row)]
        launch("layernorm", case, (rows + 1) // 2, (32, 2), buf("in", pack("f", x)), buf("gain", pack("f", g)), buf("bias", pack("f", b)),
               out("out", 4 * len(x), pack("f", want)), val("s32", rows), val("s32", cols), val("f32", eps))
    x = [-math.inf] * 3 + [0.0, 1.0, 88.0, -104.0, f32(1e-40)] + [3.0] * 3
    launch("softmax", "infinite", 1, 64, buf("in", pack("f", x)), out("out", 44), val("s32", 11))
    launch("softmax", "nan", 1, 64, buf("in", pack("f", [math.nan, 1.0, 2.0])), out("out", 12), val("s32", 3))

    rows, pairs = 3, 70
    x, g = [r.uniform(-3, 3) for _ in range(2 * rows * pairs)], [r.uniform(0.5, 2) for _ in range(2 * pairs)]
    launch("rmsnorm", "basic", rows, 64, buf("in", pack("e", x)), buf("gain", pack("e", g)), out("out", 4 * rows * pairs), val("s32", pairs),
           val("f32", 1e-6))
    launch("rmsnorm", "zeros", 1, 64, buf("in", bytes(40)), buf("gain", pack("e", g[:20])), out("out", 40), val("s32", 10), val("f32", 1e-6))

    for case, length, heads in (("basic", 20, 2), ("one", 1, 1)):
        q, k, v = ([f32(r.uniform(-1, 1)) for _ in range(16 * length * heads)] for _ in "qkv")
        launch("attention", case, (1, heads), 32, buf("q", pack("f", q)), buf("k", pack("f", k)), buf("v", pack("f", v)), out("out", 4 * len(q)),
               val("s32", length), val("f32", 0.25))

    table = [f32(r.uniform(-2, 2)) for _ in range(12 * 32)]
    counts = [3, 0, 5, 1, 2]
    offsets = [sum(counts[:i]) for i in range(len(counts) + 1)]
    ids = [r.choice([-1, 12, 1 << 40, -(1 << 63)] + list(range(12)) * 2) for _ in range(offsets[-1])]
    want = []
    for b in range(len(counts)):
        for c in range(32):
            total = 0.0
            for i in ids[offsets[b]:offsets[b + 1]]:
                if 0 <= i < 12:
                    total = f32(total + table[i * 32 + c])
            want.append(total)
    launch("embedding", "basic", 2, (8, 4), buf("table", pack("f", table)), buf("ids", pack("q", ids)), buf("offsets", pack("i", offsets)),
           out("out", 4 * len(want), pack("f", want)), val("s32", len(counts)), val("s64", 12))

    rows = [[f32(r.uniform(-5, 5)) for _ in range(44)], [0.0] * 44, [f32(v * 1.0) for v in range(-22, 22)], [1e-30] * 40 + [-3e30, 3e30, 0.5, -0.0]]
    q, scales = [], []
    for row in rows:
        top = max(map(abs, map(f32, row)))
        scale = directed(Fraction(top) / 127, "n") if top else 1.0
        q += [clamp(round(directed(Fraction(f32(v)) / Fraction(scale), "n")), 8) for v in row]
        scales.append(scale)
    flat = [v for row in rows for v in row]
    launch("quantize", "basic", 4, 32, buf("in", pack("f", flat)), out("out", len(q), pack("b", q)), out("scales", 16, pack("f", scales)),
           val("s32", 11))
    q, scales, zero = [s8(r.getrandbits(8)) for _ in range(3 * 44)] + [-128, 127, 0, -1] * 11, [0.5, f32(0.3), -2.0, 1e-3], 131
    want, dots = [], []
    for i in range(0, len(q), 4):
        v, s = q[i:i + 4], f32(scales[i // 44])
        want += [f32(((v[0] & 255) - zero) * s), f32((v[1] - zero) * s), f32(v[2] * s), directed(Fraction(v[3]) / Fraction(s), "n") if v[3] else math.copysign(0.0, s)]
        dots.append(sum(c * c for c in v) + sum((c & 255) * w for c, w in zip(v, (4, 3, 2, 1))) + i // 4 % 11)
    launch("dequantize", "basic", 4, 32, buf("in", pack("b", q)), buf("scales", pack("f", scales)), val("u8", zero),
           out("out", 4 * len(q), pack("f", want)), out("dots", len(q), pack("i", dots)), val("s32", 11))
