"""Launches of kernels whose threads work together: votes, shuffles, cooperative groups, atomics, locks, grid-wide sums."""

from .common import *
from .integers import M32, M64, remainder, quotient


def make():
    r = rng("warps")
    votes(r)
    groups(r)
    shuffles(r)
    atomics(r)
    grids(r)


def mask(lanes):
    return sum(bool(v) << i for i, v in enumerate(lanes))


def votes(r):
    for case, n in (("basic", 90), ("equal", 64), ("empty", 0)):
        x = [r.choice([12, 57, 1002, -3, 40, 41]) if case == "basic" else 42 for _ in range(max(n, 1))]
        want = []
        for w in range(0, 96, 32):
            v = [x[i] if i < n else -1 for i in range(w, w + 32)]
            u = [k & M32 for k in v]
            same = all(k == v[0] for k in v)
            odd = mask(k & 1 for k in v)
            conj = disj = par = None
            conj, disj, par = M32, 0, 0
            for k in u:
                conj, disj, par = conj & k, disj | k, par ^ k
            for k in v:
                want += [odd, any(j > 1000 for j in v), all(j < 1000 for j in v), all((j < 0) == (v[0] < 0) for j in v),
                         mask(remainder(j, 5) == remainder(k, 5) for j in v), M32 if same else 0, same, sum(u), min(v), max(u), conj, disj ^ par,
                         mask((j & 1) == (k & 1) and quotient(j, 7) == quotient(k, 7) for j in v),
                         sum(j & 1 and j > 50 for j in v) if k & 1 else 100 + max(j & 255 for j in v if not j & 1)]
        launch("votes", case, 3, 32, buf("in", pack("i", x)), out("out", 96 * 56, pack("I", want)), val("s32", n))


def groups(r):
    for case, n in (("basic", 128), ("ragged", 75)):
        x = [r.randrange(-100, 100) for _ in range(n)]
        v = x + [0] * (128 - n)
        want = []
        for i in range(128):
            t, warp, tile = i % 64, i // 32 * 32, i // 8 * 8
            peers = [j for j in range(warp, warp + 32) if (v[j] & 3) == (v[i] & 3)]
            want += [sum(v[tile:tile + 8]), sum(v[warp:i + 1]), max(v[j ^ 1] for j in peers), peers.index(i) * 100 + len(peers),
                     (v[i + 1] if i % 8 < 7 else v[i]) - v[tile], any(k > 90 for k in v[tile:tile + 8]) + 2 * (t // 8)]
        launch("coop_groups", case, 2, 64, buf("in", pack("i", x)), out("out", 128 * 24, pack("i", want)),
               inout("odd_count", pack("i", [3]), pack("i", [3 + sum(k & 1 for k in v)])), val("s32", n))


def shuffles(r):
    v = [r.randrange(-1000, 1000) for _ in range(64)]
    want, reals = [], []
    for t in range(64):
        w, lane = v[t // 32 * 32:t // 32 * 32 + 32], t % 32
        down = lambda d, width: w[lane + d] if lane % width + d < width else w[lane]
        up = lambda d, width: w[lane - d] if lane % width >= d else w[lane]
        delta = v[t] & 3
        want += [w[5], w[v[t] & 31], w[lane // 8 * 8 + 3], up(1, 32), up(3, 16), down(2, 32), down(5, 8), w[lane ^ 1], w[lane ^ 12], w[lane ^ 17],
                 down(delta, 4), lane % 4 + delta < 4]
        reals += [w[lane ^ 16] * 0.5, down(1, 4) * 0.5]
    launch("shuffles", "basic", 1, 64, buf("in", pack("i", v)), out("out", 64 * 48, pack("i", want)), out("outd", 64 * 16, pack("d", reals)))


def atomics(r):
    for case, n in (("basic", 150), ("empty", 0)):
        x = [r.getrandbits(32) >> r.randrange(20) for _ in range(max(n, 1))]
        g = [r.getrandbits(32) for _ in range(14)]
        g[12], g[13] = 7, 30
        h = [r.getrandbits(64) for _ in range(6)]
        own = [[r.randrange(8) for _ in range(9)] for _ in x]
        own64 = [[r.choice([7, 9]) for _ in range(3)] for _ in x]
        real = 1.5
        g0, h0, own0, own640 = list(g), list(h), [list(o) for o in own], [list(o) for o in own64]
        for b in range(0, 192, 64):
            s, s64_ = [0, M32, 0, M32, 0, 0, 0, 0], [0, M64, 0, 0]
            for i in range(b, min(b + 64, n)):
                v = x[i]
                w = v * 0x100000001 & M64
                s = [s[0] + v & M32, min(s[1], v), max(s[2], v), s[3] & (v | 0xFF), s[4] | v & 0xF0F0, s[5] ^ v, s[6] + 1, max(s[7], s32(v))]
                s64_ = [s64_[0] + w & M64, min(s64_[1], w), max(s64_[2], w), s64_[3] ^ w]
                g[8] &= v | 0xF
                g[9] |= v & 0xFF00FF
                g[10] ^= v * 3 & M32
                g[11] = g[11] - v & M32
                g[12] = 0 if g[12] >= 16 else g[12] + 1
                g[13] = 20 if g[13] == 0 or g[13] > 20 else g[13] - 1
                real += (v & 255) * 0.5
                h[4] |= w & 0xFF00FF00FF00FF
                h[5] &= w | 0xFFFF << 24
                o, p, k = own[i], own64[i], v & 7
                o[0] += 1
                o[1], o[2] = o[1] ^ o[2], v
                o[3], o[4] = o[4] * 2, v if o[4] == (4 if v & 1 else 0) else o[4]
                o[5], o[6] = o[6], 0 if o[6] >= k else o[6] + 1
                o[7], o[8] = o[8], k if o[8] == 0 or o[8] > k else o[8] - 1
                old = p[1]
                p[1] = w if old == (7 if w & 1 else 9) else old
                p[0], p[2] = (old + p[2] & M64) ^ w, w + 5 & M64
            g[0] = g[0] + s[0] & M32
            g[1], g[2], g[3], g[4], g[5] = min(g[1], s[1]), max(g[2], s[2]), g[3] & s[3], g[4] | s[4], g[5] ^ s[5]
            g[6] = g[6] + s[6] & M32
            g[7] = max(s32(g[7]), s[7]) & M32
            h[0] = h[0] + s64_[0] & M64
            h[1], h[2], h[3] = min(h[1], s64_[1]), max(h[2], s64_[2]), h[3] ^ s64_[3]
        flat = lambda kind, rows: pack(kind, [v for row in rows for v in row])
        launch("atomics", case, 3, 64, buf("in", pack("I", x)), inout("g32", pack("I", g0), pack("I", g)), inout("g64", pack("Q", h0), pack("Q", h)),
               inout("own", flat("I", own0), flat("I", own)), inout("own64", flat("Q", own640), flat("Q", own64)),
               inout("dsum", pack("d", [1.5]), pack("d", [real])), val("s32", n))


def grids(r):
    for case, n, grid in (("basic", 400, 4), ("one_block", 10, 1), ("empty", 0, 3)):
        x = [r.randrange(-1000, 1000) for _ in range(max(n, 1))]
        parts = [sum(x[i] for i in range(n) if i % (grid * 64) // 64 == b) for b in range(grid)]
        launch("last_block", case, grid, 64, buf("in", pack("i", x)), out("parts", 4 * grid, pack("i", parts)),
               inout("ticket", bytes(4), bytes(4)), out("out", 4, pack("i", [sum(x[:n])])), val("s32", n))
    launch("spinlock", "basic", 5, 32, inout("lock", bytes(4), bytes(4)), inout("state", pack("Q", [100, 7]), pack("Q", [115, 12])),
           out("per_block", 40, pack("I", [b * 10 + t for b in range(5) for t in range(2)])))
