"""Triton kernels of varied kind, compiled to PTX without a GPU. The files beside were made with Triton 3.9:

    TRITON_DISABLE_LINE_INFO=1 python kernels.py FOLDER 75,80,90,100,120 [NAME,...]
"""
import sys, os, traceback
import triton, triton.language as tl
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget

@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)

@triton.jit
def softmax(x, o, s, n, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + r * s + c, mask=c < n, other=-float("inf"))
    v = v - tl.max(v, 0)
    e = tl.exp(v)
    tl.store(o + r * s + c, e / tl.sum(e, 0), mask=c < n)

@triton.jit
def layernorm(x, w, b, o, s, n, eps, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    m = c < n
    v = tl.load(x + r * s + c, mask=m, other=0.0).to(tl.float32)
    mu = tl.sum(v, 0) / n
    d = tl.where(m, v - mu, 0.0)
    rs = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    tl.store(o + r * s + c, (d * rs * tl.load(w + c, mask=m) + tl.load(b + c, mask=m)).to(tl.float16), mask=m)

@triton.jit
def matmul(a, b, c, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, T: tl.constexpr):
    pm = tl.program_id(0); pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM); rn = pn * BN + tl.arange(0, BN); rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sa + rk[None, :]
    pb = b + rk[:, None] * sb + rn[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(pa, mask=rk[None, :] + k < K, other=0.0)
        y = tl.load(pb, mask=rk[:, None] + k < K, other=0.0)
        acc = tl.dot(x, y, acc, input_precision=T)
        pa += BK; pb += BK * sb
    tl.store(c + rm[:, None] * sc + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))

@triton.jit
def matmul_int8(a, b, c, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM); rn = tl.program_id(1) * BN + tl.arange(0, BN); rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * sa + rk[None, :] + k)
        y = tl.load(b + (rk[:, None] + k) * sb + rn[None, :])
        acc += tl.dot(x, y, out_dtype=tl.int32)
    tl.store(c + rm[:, None] * sc + rn[None, :], acc)

@triton.jit
def matmul_fp64(a, b, c, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM); rn = tl.program_id(1) * BN + tl.arange(0, BN); rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float64)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * sa + rk[None, :] + k)
        y = tl.load(b + (rk[:, None] + k) * sb + rn[None, :])
        acc = tl.dot(x, y, acc, out_dtype=tl.float64)
    tl.store(c + rm[:, None] * sc + rn[None, :], acc)

@triton.jit
def matmul_desc(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0); pn = tl.program_id(1)
    da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([pm * BM, k]), db.load([pn * BN, k]).T, acc)
    dc.store([pm * BM, pn * BN], acc.to(tl.float16))

@triton.jit
def attention(q, k, v, o, n, sc, S: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    pm = tl.program_id(0)
    rm = pm * BM + tl.arange(0, BM); rd = tl.arange(0, D); rn = tl.arange(0, BN)
    Q = tl.load(q + rm[:, None] * S + rd[None, :])
    m = tl.full((BM,), -float("inf"), tl.float32); l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for s in range(0, n, BN):
        K = tl.load(k + (s + rn[None, :]) * S + rd[:, None])
        V = tl.load(v + (s + rn[:, None]) * S + rd[None, :])
        w = tl.dot(Q, K) * sc
        w = tl.where(rm[:, None] >= s + rn[None, :], w, -float("inf"))
        mn = tl.maximum(m, tl.max(w, 1))
        p = tl.exp2(w - mn[:, None]); al = tl.exp2(m - mn)
        l = l * al + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), V, acc * al[:, None])
        m = mn
    tl.store(o + rm[:, None] * S + rd[None, :], (acc / l[:, None]).to(tl.float16))

@triton.jit
def atomics(x, o, f, h, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(o + v % 64, 1, mask=i < n, sem="relaxed")
    tl.atomic_max(o + 64 + v * 0, v, scope="sys")
    tl.atomic_min(o + 65 + v * 0, v, scope="cta")
    tl.atomic_and(o + 66 + v * 0, v); tl.atomic_or(o + 67 + v * 0, v); tl.atomic_xor(o + 68 + v * 0, v)
    tl.atomic_xchg(o + 69 + v % 2, v); tl.atomic_add(f + v * 0, v.to(tl.float32)); tl.atomic_add(h + v % 8, v.to(tl.float16))
    tl.atomic_max(f + 1 + v * 0, v.to(tl.float32))

@triton.jit
def spin(lock, x):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(x, tl.load(x) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem="release")

@triton.jit
def reduce(x, o, oi, n, B: tl.constexpr):
    c = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * n + c, mask=c < n, other=0.0)
    tl.store(o, tl.sum(v, 0)); tl.store(o + 1, tl.max(v, 0)); tl.store(o + 2, tl.min(v, 0))
    tl.store(oi, tl.argmax(v, 0)); tl.store(oi + 1, tl.argmin(v, 0)); tl.store(oi + 2, tl.xor_sum(c, 0))

@triton.jit
def mul_combine(a, b):
    return a * b

@triton.jit
def scan(x, o, p, n, B: tl.constexpr):
    c = tl.arange(0, B)
    v = tl.load(x + c)
    tl.store(o + c, tl.cumsum(v, 0)); tl.store(p + c, tl.associative_scan(v, 0, mul_combine, reverse=True))

@triton.jit
def sort(x, o, B: tl.constexpr):
    c = tl.arange(0, B)
    tl.store(o + c, tl.sort(tl.load(x + c), descending=True))

@triton.jit
def transpose(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B); j = tl.program_id(1) * B + tl.arange(0, B)
    tl.store(o + j[:, None] * n + i[None, :], tl.trans(tl.load(x + i[:, None] * n + j[None, :])))

@triton.jit
def casts(x, o8, o5, ob, oh, oi, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o8 + i, v.to(tl.float8e4nv)); tl.store(o5 + i, v.to(tl.float8e5)); tl.store(ob + i, v.to(tl.bfloat16))
    tl.store(oh + i, v.to(tl.float16, fp_downcast_rounding="rtz")); tl.store(oi + i, v.to(tl.int8))

@triton.jit
def casts_sm75(x, o5, ob, oh, oi, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o5 + i, v.to(tl.float8e5)); tl.store(ob + i, v.to(tl.bfloat16)); tl.store(oh + i, v.to(tl.float16)); tl.store(oi + i, v.to(tl.int8))

@triton.jit
def dropout(x, o, seed, p, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    r = tl.rand(seed, i)
    tl.store(o + i, tl.where(r > p, tl.load(x + i, mask=i < n) / (1 - p), 0.0), mask=i < n)

@triton.jit
def mathy(x, y, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i); b = tl.load(y + i)
    r = tl.sin(a) + tl.cos(b) + tl.log(a) + tl.log2(b) + tl.sqrt_rn(a) + tl.rsqrt(b) + tl.erf(a) + tl.floor(b) + tl.ceil(a) + tl.fma(a, b, a) + tl.div_rn(a, b) + tl.abs(b) + tl.sigmoid(a)
    tl.store(o + i, r)

@triton.jit
def ints(x, y, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i); b = tl.load(y + i)
    tl.store(o + i, (a // b) ^ (a % b) | (a << (b & 31)) & (a >> 3) + tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32) - tl.cdiv(a, 7))

@triton.jit
def asm(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.inline_asm_elementwise("prmt.b32 $0, $1, $1, 0x0123;", "=r,r", [tl.load(x + i)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(o + i, v)

@triton.jit
def histogram(x, o, B: tl.constexpr, H: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + tl.arange(0, H), tl.histogram(tl.load(x + i), H))

@triton.jit
def gather(x, idx, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.gather(tl.load(x + i), tl.load(idx + i), 0))

@triton.jit
def conv1d(x, w, o, n, K: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for k in tl.static_range(K):
        acc += tl.load(x + i + k, mask=i + k < n, other=0.0, eviction_policy="evict_first", cache_modifier=".cg") * tl.load(w + k)
    tl.store(o + i, acc, mask=i < n, eviction_policy="evict_last", cache_modifier=".cs")

@triton.jit
def device_print(x, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.device_print("v", v)
    tl.device_assert(v > 0, "positive")

@triton.jit
def dot_scaled(a, sa, b, sb, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.arange(0, BM); rn = tl.arange(0, BN); rk = tl.arange(0, BK); rs = tl.arange(0, BK // 32)
    x = tl.load(a + rm[:, None] * BK + rk[None, :]); y = tl.load(b + rk[:, None] * BN + rn[None, :])
    u = tl.load(sa + rm[:, None] * (BK // 32) + rs[None, :]); v = tl.load(sb + rn[:, None] * (BK // 32) + rs[None, :])
    acc = tl.dot_scaled(x, u, "e4m3", y, v, "e4m3")
    tl.store(c + rm[:, None] * BN + rn[None, :], acc)

@triton.jit
def persistent(a, b, c, M, N, K, NUM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    start = tl.program_id(0)
    da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for t in tl.range(start, tiles, NUM, flatten=True, warp_specialize=True):
        pm = t // tl.cdiv(N, BN); pn = t % tl.cdiv(N, BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(da.load([pm * BM, k]), db.load([pn * BN, k]).T, acc)
        dc.store([pm * BM, pn * BN], acc.to(tl.float16))

P = lambda t: "*" + t
C = {}
def case(name, fn, sig, consts, opts=None, arch=None): C[name] = (fn, sig, consts, opts or {}, arch)
case("add", add, dict(x=P("fp32"), y=P("fp32"), o=P("fp32"), n="i32"), dict(B=1024))
case("add_bf16", add, dict(x=P("bf16"), y=P("bf16"), o=P("bf16"), n="i64"), dict(B=512))
case("softmax", softmax, dict(x=P("fp32"), o=P("fp32"), s="i32", n="i32"), dict(B=2048), dict(num_warps=8))
case("layernorm", layernorm, dict(x=P("fp16"), w=P("fp32"), b=P("fp32"), o=P("fp16"), s="i32", n="i32", eps="fp32"), dict(B=1024))
mm = lambda t, c="fp32": dict(a=P(t), b=P(t), c=P(c), M="i32", N="i32", K="i32", sa="i32", sb="i32", sc="i32")
case("matmul_f16", matmul, mm("fp16"), dict(BM=128, BN=128, BK=32, T="tf32"), dict(num_warps=4, num_stages=3))
case("matmul_bf16", matmul, mm("bf16"), dict(BM=64, BN=256, BK=64, T="tf32"), dict(num_warps=8, num_stages=4))
case("matmul_tf32", matmul, mm("fp32"), dict(BM=64, BN=64, BK=32, T="tf32"))
case("matmul_ieee", matmul, mm("fp32"), dict(BM=32, BN=32, BK=16, T="ieee"))
case("matmul_tf32x3", matmul, mm("fp32"), dict(BM=64, BN=64, BK=32, T="tf32x3"))
case("matmul_fp8", matmul, mm("fp8e4nv"), dict(BM=128, BN=64, BK=64, T="tf32"), None, 89)
case("matmul_fp8e5", matmul, mm("fp8e5"), dict(BM=64, BN=64, BK=64, T="tf32"), None, 89)
m3 = lambda t, c: dict(a=P(t), b=P(t), c=P(c), K="i32", sa="i32", sb="i32", sc="i32")
case("matmul_int8", matmul_int8, m3("i8", "i32"), dict(BM=64, BN=64, BK=64))
case("matmul_fp64", matmul_fp64, m3("fp64", "fp64"), dict(BM=32, BN=32, BK=16), None, 80)
md = dict(a=P("fp16"), b=P("fp16"), c=P("fp16"), M="i32", N="i32", K="i32")
case("matmul_desc", matmul_desc, md, dict(BM=128, BN=128, BK=64), dict(num_stages=3), 90)
case("persistent", persistent, md, dict(NUM=132, BM=128, BN=128, BK=64), dict(num_stages=3, num_warps=4), 90)
case("attention", attention, dict(q=P("fp16"), k=P("fp16"), v=P("fp16"), o=P("fp16"), n="i32", sc="fp32"), dict(S=64, BM=128, BN=64, D=64), dict(num_stages=2))
case("atomics", atomics, dict(x=P("i32"), o=P("i32"), f=P("fp32"), h=P("fp16"), n="i32"), dict(B=256))
case("spin", spin, dict(lock=P("i32"), x=P("i32")), {})
case("reduce", reduce, dict(x=P("fp32"), o=P("fp32"), oi=P("i32"), n="i32"), dict(B=1024))
case("scan", scan, dict(x=P("fp32"), o=P("fp32"), p=P("fp32"), n="i32"), dict(B=512))
case("sort", sort, dict(x=P("i32"), o=P("i32")), dict(B=256))
case("transpose", transpose, dict(x=P("fp32"), o=P("fp32"), n="i32"), dict(B=64))
case("casts", casts, dict(x=P("fp32"), o8=P("fp8e4nv"), o5=P("fp8e5"), ob=P("bf16"), oh=P("fp16"), oi=P("i8"), n="i32"), dict(B=512), None, 89)
case("casts_sm75", casts_sm75, dict(x=P("fp32"), o5=P("fp8e5"), ob=P("bf16"), oh=P("fp16"), oi=P("i8"), n="i32"), dict(B=512))
case("dropout", dropout, dict(x=P("fp32"), o=P("fp32"), seed="i32", p="fp32", n="i32"), dict(B=512))
case("mathy", mathy, dict(x=P("fp32"), y=P("fp32"), o=P("fp32"), n="i32"), dict(B=256))
case("mathy64", mathy, dict(x=P("fp64"), y=P("fp64"), o=P("fp64"), n="i32"), dict(B=128))
case("ints", ints, dict(x=P("i32"), y=P("i32"), o=P("i32"), n="i32"), dict(B=256))
case("asm", asm, dict(x=P("i32"), o=P("i32")), dict(B=256))
case("histogram", histogram, dict(x=P("i32"), o=P("i32")), dict(B=512, H=64))
case("gather", gather, dict(x=P("fp32"), idx=P("i32"), o=P("fp32")), dict(B=256))
case("conv1d", conv1d, dict(x=P("fp32"), w=P("fp32"), o=P("fp32"), n="i32"), dict(K=5, B=256))
case("device_print", device_print, dict(x=P("i32")), dict(B=64), dict(debug=True))
case("dot_scaled", dot_scaled, dict(a=P("fp8e4nv"), sa=P("u8"), b=P("fp8e4nv"), sb=P("u8"), c=P("fp32")), dict(BM=128, BN=128, BK=128), None, 89)

out = sys.argv[1]; os.makedirs(out, exist_ok=True)
archs = [int(a) for a in sys.argv[2].split(",")]
only = sys.argv[3].split(",") if len(sys.argv) > 3 else list(C)
for name in only:
    fn, sig, consts, opts, least = C[name]
    for arch in archs:
        if least and arch < least: continue
        path = f"{out}/{name}.sm{arch}.ptx"
        if os.path.exists(path): continue
        try:
            s = dict(sig); s.update({k: "constexpr" for k in consts})
            src = ASTSource(fn=fn, signature=s, constexprs={(fn.arg_names.index(k),): v for k, v in consts.items()},
                            attrs={(i,): [["tt.divisibility", 16]] for i, (k, t) in enumerate(s.items()) if t.startswith("*")})
            k = triton.compile(src, target=GPUTarget("cuda", arch, 32), options=opts)
            open(path, "w").write(k.asm["ptx"])
        except Exception as e:
            print("FAIL", name, arch, str(e).strip().split("\n")[0][:120], flush=True)
print("done")
