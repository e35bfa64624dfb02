"""Launches of integer kernels: arithmetic of all widths, merging and sorting, AES, Philox, tables, loops, parameters."""

from .common import *

M32, M64 = 0xFFFFFFFF, (1 << 64) - 1


def make():
    r = rng("integers")
    int64(r)
    int_misc(r)
    int_div(r)
    ordering(r)
    aes(r)
    monte_carlo(r)
    memory(r)
    flow(r)


def quotient(a, b):
    """Division as C does it: towards zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def remainder(a, b):
    return a - b * quotient(a, b)


def int64(r):
    edges = [0, 1, -1, 2, 10, -10, 63, 64, 1 << 31, -(1 << 31), (1 << 32) - 1, 1 << 32, (1 << 63) - 1, -(1 << 63), -(1 << 63) + 1]
    random = [(s64(r.getrandbits(64) >> r.randrange(64)), s64(r.getrandbits(64) >> r.randrange(64))) for _ in range(60)]
    for case, pairs in (("basic", random), ("edges", [(a, b) for a in edges for b in edges[::2]])):
        want = []
        for a, b in pairs:
            ua, ub, s = a & M64, b & M64, b & 63
            sd, ud = (3 if b in (0, -1) else b), (3 if b == 0 else ub)
            low = (ua & M32) + (ub & M32)
            carry = low + (((ua >> 32) + (ub >> 32)) << 32)
            wide = (ua & M32) * (ub & M32) + (ua >> 32) + (ub >> 32 << 32)
            want += [a + b, a - b, a * b, a * b >> 64, ua * ub >> 64, quotient(a, sd), remainder(a, sd), ua // ud, ua % ud, ua << s,
                     ua >> s, a >> s, min(a, b), max(ua, ub), abs(a) ^ ~b, quotient(a, 10) + ua % 1000, carry, (wide & M64) + (carry >> 64)]
        n = len(pairs)
        launch("int64", case, (n + 31) // 32, 32, buf("in", pack("q", [v for p in pairs for v in p])), out("out", n * 144, pack("q", want)),
               val("s32", n))


def s24(v):
    v &= 0xFFFFFF
    return v - (1 << 24) if v >> 23 else v


def s16(v):
    v &= 0xFFFF
    return v - (1 << 16) if v >> 15 else v


def s8(v):
    v &= 0xFF
    return v - (1 << 8) if v >> 7 else v


def clamp(v, bits, signed=True):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return max(low, min(high, v))


def pairs32(r):
    return [(s32(r.getrandbits(32) >> r.randrange(32)), s32(r.getrandbits(32) >> r.randrange(32))) for _ in range(70)], [
        (s32(a), s32(b)) for a in SPECIAL_I32[::2] for b in SPECIAL_I32[1::2] + [0]]


def int_misc(r):
    random, edges = pairs32(r)
    for case, pairs in (("basic", random), ("edges", edges)):
        want = []
        for a, b in pairs:
            ua, ub, sa, sb, ca, cb = a & M32, b & M32, s16(a), s16(b), s8(a), s8(b >> 8)
            want += [a * b >> 32, ua * ub >> 32, s24(a) * s24(b), (ua & 0xFFFFFF) * (ub & 0xFFFFFF), abs(a - b) + 5, abs(ua - ub) + 7,
                     clamp(a + b, 32), clamp(a - b, 32), (a + b) >> 1, abs(a) - min(a, b), max(ua, ub), sa * sb + s16(sa - sb),
                     ca if s16(sa * 3) < sb else cb, (sa >> 3 & 0xFFFF) + s8(ca * cb),
                     (ua >= ub) + (a >= b) * 2 + (a != b) * 4 + (sa == sb) * 8, (1 if a == 0 else -a) * (b | 1)]
        n = len(pairs)
        launch("int_misc", case, (n + 63) // 64, 64, buf("in", pack("i", [v for p in pairs for v in p])), out("out", n * 64, pack("i", want)),
               val("s32", n))


def int_div(r):
    random, edges = pairs32(r)
    for case, pairs in (("basic", random), ("edges", edges)):
        pairs = [(a, b) for a, b in pairs if b and not (b == -1 and a == -1 << 31) and not (s16(b) == -1 and s16(a) == -1 << 15)]
        want = []
        for a, b in pairs:
            ua, ub, sa, sb, wa, wb = a & M32, b & M32, s16(a), s16(b), a & 0xFFFF, b & 0xFFFF
            if sb == 0:
                sb, wb = 7, 9
            want += [quotient(a, b), remainder(a, b), ua // ub, ua % ub, quotient(sa, sb), remainder(sa, sb), wa // wb, wa % wb,
                     quotient(a, 7), remainder(a, 10), ua // 641, ua % 1000003, quotient(a, 16), remainder(a, -8), ua // ((ub & 31) + 1),
                     quotient(s8(a), 5) + (a & 255) % 6]
        n = len(pairs)
        launch("int_div", case, (n + 31) // 32, 32, buf("in", pack("i", [v for p in pairs for v in p])), out("out", n * 64, pack("i", want)),
               val("s32", n))


def ordering(r):
    for case, n, shift in (("basic", 500, 4), ("full", 512, 28), ("one_digit", 37, 0), ("empty", 0, 0)):
        keys = [r.randrange(16) << 4 | 3 if case == "one_digit" else r.getrandbits(32) for _ in range(max(n, 1))]
        want = pack("I", sorted(keys[:n], key=lambda k: k >> shift & 15))
        launch("radix_pass", case, 1, 64, buf("in", pack("I", keys)), out("out", 4 * len(keys), padded(want, 4 * len(keys))), val("s32", n),
               val("s32", shift))

    for case, na, nb in (("basic", 101, 178), ("no_left", 0, 33), ("no_right", 30, 0), ("ties", 50, 50)):
        a, b = (sorted(r.randrange(5) if case == "ties" else s32(r.getrandbits(32)) for _ in range(n)) for n in (na, nb))
        launch("merge_path", case, (na + nb + 127) // 128, 32, buf("a", pack("i", a or [0])), val("s32", na), buf("b", pack("i", b or [0])),
               val("s32", nb), out("out", 4 * (na + nb), pack("i", sorted(a + b))))

    cols = 75
    rows = [[f32(v) for v in r.sample(range(-1000, 1000), cols)], [f32(r.randrange(4)) for _ in range(cols)], [-1.0] * cols,
            [-math.inf, math.inf] + [0.0] * (cols - 2)]
    for case, width, k in (("basic", cols, 7), ("short", 3, 5), ("empty", 0, 2)):
        values, places = [], []
        for row in rows:
            best = sorted(range(width), key=lambda j: (-row[j], j))[:k]
            values += [row[j] for j in best] + [0.0] * (k - len(best))
            places += best + [-1] * (k - len(best))
        launch("topk", case, len(rows), 32, buf("in", pack("f", [v for row in rows for v in row[:width]] or [0.0])),
               out("value", 16 * k, pack("f", values)), out("place", 16 * k, pack("i", places)), val("s32", width), val("s32", k))


def sbox():
    box, p, q = [0x63] * 256, 1, 1
    while True:
        p = p ^ p << 1 & 255 ^ (0x1B if p & 128 else 0)
        for shift in (1, 2, 4):
            q ^= q << shift & 255
        q ^= 9 if q & 128 else 0
        box[p] = q ^ rol(q, 1) ^ rol(q, 2) ^ rol(q, 3) ^ rol(q, 4) ^ 0x63
        if p == 1:
            return box


def rol(v, n):
    return (v << n | v >> 8 - n) & 255


def aes(r):
    box = sbox()

    def expand(key):
        words = [list(key[i:i + 4]) for i in range(0, 16, 4)]
        rcon = 1
        for i in range(4, 44):
            w = words[-1]
            if i % 4 == 0:
                w = [box[v] for v in w[1:] + w[:1]]
                w[0] ^= rcon
                rcon = rcon << 1 ^ (0x11B if rcon & 128 else 0)
            words.append([a ^ b for a, b in zip(w, words[i - 4])])
        return [v for w in words for v in w]

    def encrypt(block, keys):
        s = [a ^ b for a, b in zip(block, keys)]
        for n in range(1, 11):
            t = [box[s[(i + 4 * (i % 4)) % 16]] for i in range(16)]
            if n < 10:
                for c in range(0, 16, 4):
                    a = t[c:c + 4]
                    twice = [v << 1 ^ (0x11B if v & 128 else 0) for v in a]
                    t[c:c + 4] = [twice[i] ^ twice[(i + 1) % 4] ^ a[(i + 1) % 4] ^ a[(i + 2) % 4] ^ a[(i + 3) % 4] for i in range(4)]
            s = [a ^ b for a, b in zip(t, keys[16 * n:])]
        return bytes(s)

    # The example of FIPS 197, appendix B.
    key, plain = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c"), bytes.fromhex("3243f6a8885a308d313198a2e0370734")
    assert encrypt(plain, expand(key)).hex() == "3925841d02dc09fbdc118597196a0b32"
    for case, blocks in (("fips197", [plain]), ("basic", [r.randbytes(16) for _ in range(37)] + [bytes(16), b"\xff" * 16])):
        launch("aes", case, 2, 32, buf("in", b"".join(blocks)), buf("keys", bytes(expand(key))),
               out("out", 16 * len(blocks), b"".join(encrypt(b, expand(key)) for b in blocks)), val("s32", len(blocks)))


def philox(c, k):
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & M32, p >> 32 ^ c[3] ^ k[1], p & M32]
        k = [k[0] + 0x9E3779B9 & M32, k[1] + 0xBB67AE85 & M32]
    return c


def monte_carlo(r):
    # Known answer of the generator's authors: counter and key zero.
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    for case, seed, draws in (("basic", 0x123456789ABCDEF0, 5), ("none", 1, 0)):
        hits = []
        for t in range(128):
            h = 0
            for i in range(draws):
                c = [v >> 1 for v in philox([i, t, 0, 7], [seed & M32, seed >> 32])]
                h += (c[0] ** 2 + c[1] ** 2 < 1 << 62) + (c[2] ** 2 + c[3] ** 2 < 1 << 62)
            hits.append(h)
        launch("monte_carlo", case, 2, 64, val("u64", seed), val("u32", draws), out("per_thread", 512, pack("I", hits)),
               inout("inside", pack("Q", [100]), pack("Q", [100 + sum(hits)])))


ENTRIES = [(1, -7, 3, 0.5), (4, 300, -5, -2.25), (0, 0, 1, 1e3), (31, -32768, 65537, 0.125), (9, 1, 0, -1.0)]
NEXT = [3, 0, 7, 12, 1, 15, 4, 2, 9, 8, 6, 14, 5, 11, 13, 10]


def memory(r):
    data = bytes(range(0, 256, 3)) + r.randbytes(10)
    values, weights = [], []
    table = [10, -20, 30, -40, 50, -60, 70]
    # table[7] is written by the kernel's first thread: its old value is not read here.
    data = bytes(b ^ 1 if b & 7 == 7 else b for b in data)
    for i, b in enumerate(data):
        shift, add, mul, weight = ENTRIES[b % 5]
        at, hops = b & 15, 0
        while at and hops < 20:
            at, hops = NEXT[at], hops + 1
        values.append((i * mul + add) ^ (hops << (shift & 7)) ^ table[b & 7] ^ table[3 + (b & 3)])
        weights.append(weight * hops)
    n = len(data)
    launch("constants", "basic", 3, 32, buf("in", data), out("out", 4 * n, pack("i", values)), out("weights", 8 * n, pack("d", weights)),
           out("total", 4, pack("I", [42])), val("s32", n))

    rows = [[r.choice([-5, 0, 3, 3, 900, 2, 7, 8]) for _ in range(16)], list(range(16)), list(range(16, 0, -1)), [7] * 16]
    rows += [[r.randrange(-10 ** 6, 10 ** 6) for _ in range(16)] for _ in range(30)]
    want = []
    for row in rows:
        order = sorted(range(16), key=lambda j: (row[j], j))
        keys, grid = [row[j] for j in order], {}
        for i in range(20):
            grid[i & 3, i % 5] = keys[i & 15] - i
        total, stack = 0, [order[0]]
        while stack:
            v = stack.pop()
            total = (total * 5 + grid[v & 3, v % 5]) & M32
            if v > 1 and len(stack) < 10:
                stack += [v >> 1, v // 3]
        want += [k * 16 + o for k, o in zip(keys, order)] + [total]
    launch("local_arrays", "basic", 2, 32, buf("in", pack("i", [v for row in rows for v in row])), out("out", len(rows) * 68, pack("i", want)),
           val("s32", len(rows)))

    n, size = 70, 40
    data = [r.randrange(-50, 50) for _ in range(size)]
    index = [r.choice([-5, -1, size, 1000000, -(1 << 31), (1 << 31) - 1] + list(range(size))) for _ in range(n)]
    signs = [r.randrange(-3, 3) for _ in range(n)]
    for case, maybe in (("basic", signs), ("null", None)):
        want = [-0x32323233] * (3 * n)
        for i, v in enumerate(index):
            if 0 <= v < size and data[v] > 0:
                want[i] = data[v]
            if (maybe and maybe[i] < 0) or v == -5:
                want[n + i] = maybe[i] if maybe else -99
            want[2 * n + i] = data[v - 1] if 0 < v < size and (data[v - 1] ^ data[v]) < 0 else 77
        launch("predicated", case, 3, 32, buf("maybe", pack("i", signs)) if maybe else val("u64", 0), buf("index", pack("i", index)),
               buf("data", pack("i", data)), out("out", 12 * n, pack("i", want)), val("s32", n), val("s32", size))

    samples = [r.randrange(-1000, 1000) * 0.25 for _ in range(90)]
    for case, n, radius in (("basic", 90, 5), ("wide", 20, 40), ("no_radius", 33, 0)):
        taps = [r.randrange(-9, 9) for _ in range(2 * radius + 1)]
        want = [sum(samples[i + j - radius] * taps[j] for j in range(2 * radius + 1) if 0 <= i + j - radius < n) for i in range(n)]
        launch("dynamic_shared", case, (n + 31) // 32, 32, buf("in", pack("d", samples[:n])), buf("taps", pack("h", taps)),
               out("out", 8 * n, pack("d", want)), val("s32", n), val("s32", radius), shared=8 * (32 + 2 * radius) + 2 * (2 * radius + 1))

    settings = dict(mode=b"x", bias=-300, steps=[1, -2, 3, 1 << 30, -5, 6], scale=0.125, color=[1.5, 2.5, 3.5, 4.5])
    data = struct.pack("<cxh6i4xd8x4f", settings["mode"], settings["bias"], *settings["steps"], settings["scale"],
                       *settings["color"])
    index = list(range(32))
    for case, mode, flag in (("basic", b"x", 1), ("other_mode", b"y", 1), ("flag_off", b"x", 0)):
        a, b, c, f = 250, -1234, -(1 << 40) - 12345, 3.25
        want = []
        for i in index:
            v = settings["steps"][i % 6] * 0.125 + a - b
            if flag:
                v += f32(1.5 + -300) if mode == b"x" else f32(4.5 * f)
            want.append(v + float(c >> i))
        launch("struct_params", case, 1, 32, val("u8", a), val("s16", b), struct_arg(mode + data[1:]), val("s64", c), val("f32", f),
               buf("in", pack("i", index)), out("out", 256, pack("d", want)), val("u8", flag))

    for case, grid, block in (("basic", (2, 3, 2), (5, 4, 3)), ("line", (1, 1, 4), (1, 1, 40))):
        want = []
        for z in range(grid[2]):
            for y in range(grid[1]):
                for x in range(grid[0]):
                    for t in range(block[0] * block[1] * block[2]):
                        lane, lt = t % 32, (1 << t % 32) - 1
                        tx, ty, tz = t % block[0], t // block[0] % block[1], t // block[0] // block[1]
                        want += [tx | ty << 8 | tz << 16, x | y << 8 | z << 16, lane, M32, lt + (t >> 5)]
        launch("blocks3d", case, grid, block, out("out", 4 * len(want), pack("I", want)))


def flow(r):
    operations = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: sum(i ^ b for i in range(a & 7))]
    random, edges = pairs32(r)
    pairs = random + edges[::3]
    want = []
    for i, (a, b) in enumerate(pairs):
        v = s32(operations[a & 3](a, b))
        want.append(operations[v & 3](v, i))
    n = len(pairs)
    launch("function_table", "basic", (n + 63) // 64, 64, buf("in", pack("i", [v for p in pairs for v in p])), out("out", 4 * n, pack("i", want)),
           val("s32", n))

    w, h = 13, 9
    text = bytes(r.choice(b"ab") for _ in range(w * h))
    patterns = [bytes(r.choice(b"aab?b") for _ in range(9)) for _ in range(30)]
    patterns += [b"?" * 9, b"zzzzzzzzz", b"a?!b?????", b"ab.??????", b"!????????", b"????????.", text[:3] + text[w:w + 3] + text[2 * w:2 * w + 3]]
    want = [v for p in patterns for v in find(text, w, h, p)]
    launch("nested_breaks", "basic", 2, 32, buf("text", text), val("s32", w), val("s32", h), buf("patterns", b"".join(patterns)),
           out("out", 8 * len(patterns), pack("i", want)), val("s32", len(patterns)))
    launch("nested_breaks", "too_small", 1, 32, buf("text", text), val("s32", 2), val("s32", h), buf("patterns", b"".join(patterns)),
           out("out", 8 * len(patterns), pack("i", [-1, 0] * min(32, len(patterns)) + [-0x32323233] * (2 * max(0, len(patterns) - 32)))),
           val("s32", len(patterns)))


def find(text, w, h, pattern):
    tried = 0
    for y in range(h - 2):
        for x in range(w - 2):
            tried += 1
            verdict = try_at(text, w, y, x, pattern)
            if verdict == "end":
                return -2, tried
            if verdict == "next row":
                break
            if verdict:
                return y * w + x, tried
    return -1, tried


def try_at(text, w, y, x, pattern):
    match = True
    for j in range(3):
        for i in range(3):
            c = pattern[3 * j + i]
            if c == ord("?"):
                continue
            if c == ord("!"):
                return "next row"
            if c == ord("."):
                return "end"
            if text[(y + j) * w + x + i] != c:
                match = False
                break
        if not match:
            return False
    return True
