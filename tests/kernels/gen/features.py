"""Writes tests/kernels/features: small kernels of one feature each (tensor, asynchronous copies, clusters, atomics, calls,
warps), for the chips that their first line names. Every thread reads words of `in` and leaves four words in `out`."""

import pathlib
import random
import struct

HERE = pathlib.Path(__file__).resolve().parent.parent / "features"
OLD = ["sm_75", "sm_80", "sm_89", "sm_90a"]
AMPERE = OLD[1:]
ADA = OLD[2:]
HOPPER = OLD[3:]
# Every kernel is for these, too, where ptxas does not refuse it (warpgroup products), but for those that a chip calls the system for.
NEWER = ["sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"]
LACK = {"cluster_multicast": ["sm_120a", "sm_121a"]}
kernels = {}


def kernel(name, chips, body, shared="", cluster=0, before="", block=64, grid=2, params="", launch=""):
    """`params` are more parameters, `launch` what the launch file has for them."""
    kernels[name] = (chips, body, shared, cluster, before, block, grid, params, launch)


def word(n):
    """Word n of the thread's own data into %x<n>."""
    return f"ld.global.u32 %x{n}, [%a+{512 * n}];"


def floats(kind, dst, src, count):
    """`count` registers %dst<k> of small integers as floats, from the bits of %src<k>."""
    out = []
    for k in range(count):
        s = f"%{src}{k % 4}"
        if kind in ("f16", "bf16"):
            cvt = "cvt.rn.f16.u32" if kind == "f16" else "cvt.rn.bf16.f32"
            for half in (0, 1):
                out.append(f"bfe.u32 %t0, {s}, {4 * half + k}, 3;")
                if kind == "bf16":
                    out.append("cvt.rn.f32.u32 %g0, %t0;")
                out.append(f"{cvt} %h{half}, {'%t0' if kind == 'f16' else '%g0'};")
            out.append(f"mov.b32 %{dst}{k}, {{%h0, %h1}};")
        else:
            out.append(f"bfe.u32 %t0, {s}, {2 * k}, 3; cvt.rn.f32.u32 %g0, %t0; mov.b32 %{dst}{k}, %g0;")
    return "\n".join(out)


def regs(name, n):
    return "{" + ", ".join(f"%{name}{k}" for k in range(n)) + "}"


LOAD4 = " ".join(word(n) for n in range(4))
for name, chips, instr, kind, na, nb, nc in [
    ("mma_f16_k8", OLD, "m16n8k8.row.col.f32.f16.f16.f32", "f16", 2, 1, 4),
    ("mma_f16_k16", AMPERE, "m16n8k16.row.col.f32.f16.f16.f32", "f16", 4, 2, 4),
    ("mma_f16_f16", AMPERE, "m16n8k16.row.col.f16.f16.f16.f16", "f16", 4, 2, 2),
    ("mma_bf16", AMPERE, "m16n8k16.row.col.f32.bf16.bf16.f32", "bf16", 4, 2, 4),
    ("mma_tf32", AMPERE, "m16n8k8.row.col.f32.tf32.tf32.f32", "tf32", 4, 2, 4),
]:
    init = "mov.b32 %c0, 0; mov.b32 %c1, 0; mov.b32 %c2, 0; mov.b32 %c3, 0;"
    twice = f"mma.sync.aligned.{instr} {regs('c', nc)}, {regs('a', na)}, {regs('b', nb)}, {regs('c', nc)};"
    kernel(name, chips, "\n".join([LOAD4, floats(kind, "a", "x", na), floats(kind, "b", "x", nb), init, twice, twice] +
                                  [f"mov.b32 %r{k}, %c{k};" for k in range(nc)]))
for name, chips, instr, na, nb, nc in [
    ("mma_s8_k16", OLD, "m8n8k16.row.col.s32.s8.s8.s32", 1, 1, 2),
    ("mma_u8s8_k32", AMPERE, "m16n8k32.row.col.s32.u8.s8.s32", 4, 2, 4),
    ("mma_s8_satfinite", AMPERE, "m16n8k32.row.col.satfinite.s32.s8.s8.s32", 4, 2, 4),
    ("mma_s4", AMPERE, "m16n8k64.row.col.s32.s4.s4.s32", 4, 2, 4),
    ("mma_u4_k32", OLD, "m8n8k32.row.col.s32.u4.u4.s32", 1, 1, 2),
]:
    kernel(name, chips, "\n".join(
        [LOAD4] + [f"mov.b32 %a{k}, %x{k};" for k in range(na)] + [f"not.b32 %b{k}, %x{k + 1};" for k in range(nb)] +
        [f"shl.b32 %c{k}, %x{k}, 16;" for k in range(nc)] +
        [f"mma.sync.aligned.{instr} {regs('r', nc)}, {regs('a', na)}, {regs('b', nb)}, {regs('c', nc)};"]))
for op in ("xor", "and"):
    kernel(f"mma_b1_{op}", AMPERE, LOAD4 + "\n" + "\n".join(
        f"mov.b32 %a{k}, %x{k}; mov.b32 %c{k}, %x{3 - k};" for k in range(4)) +
        f"\nmma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.{op}.popc {regs('r', 4)}, {regs('a', 4)}, {{%x1, %x2}}, {regs('c', 4)};")
kernel("mma_f64", AMPERE, LOAD4 + """
and.b32 %t0, %x0, 255; cvt.rn.f64.u32 %d0, %t0; and.b32 %t1, %x1, 255; cvt.rn.f64.u32 %d1, %t1;
cvt.rn.f64.u32 %d2, %x2; cvt.rn.f64.u32 %d3, %x3;
mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d2, %d3}, {%d0}, {%d1}, {%d2, %d3};
mov.b64 {%r0, %r1}, %d2; mov.b64 {%r2, %r3}, %d3;""")
kernel("mma_f64_constants", AMPERE, LOAD4 + """
and.b32 %t0, %x0, 255; cvt.rn.f64.u32 %d0, %t0;
mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d2, %d3}, {%d0}, {0d3ff8000000000000}, {0d3ff0000000000000, 0d0000000000000000};
mov.b64 {%r0, %r1}, %d2; mov.b64 {%r2, %r3}, %d3;""")

TILE = "shl.b32 %t0, %me, 4; mov.u32 %t1, tile; add.u32 %s0, %t0, %t1;\n"
STORE4 = LOAD4 + "\nst.shared.v4.u32 [%s0], {%x0, %x1, %x2, %x3}; bar.sync 0;\n"
for trans in ("", ".trans"):
    for n in (1, 2, 4):
        kernel(f"ldmatrix_x{n}{trans[1:]}", OLD, TILE + STORE4 +
               f"ldmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 {regs('r', n)}, [%s0];",
               shared=".shared .align 16 .b8 tile[1024];")
    kernel(f"stmatrix_x4{trans[1:]}", HOPPER, TILE + LOAD4 +
           f"\nstmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%s0], {{%x0, %x1, %x2, %x3}}; bar.sync 0;\n"
           "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%s0];", shared=".shared .align 16 .b8 tile[1024];")
kernel("movmatrix", OLD, LOAD4 + "\nmovmatrix.sync.aligned.m8n8.trans.b16 %r0, %x0;\nmovmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;")

for size, op in ((4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")):
    count = size // 4
    kernel(f"cp_async_{op}{size}", AMPERE, TILE + f"""
mul.lo.u32 %t2, %i, {size}; cvt.u64.u32 %e0, %t2; add.u64 %e0, %e0, %in;
cp.async.{op}.shared.global [%s0], [%e0], {size}; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
xor.b32 %s1, %t0, 16; add.u32 %s1, %s1, %t1;
""" + "\n".join(f"ld.shared.u32 %r{k}, [%s1+{4 * k}];" for k in range(count)), shared=".shared .align 16 .b8 tile[1024];")
kernel("cp_async_zfill", AMPERE, TILE + """
and.b32 %t2, %me, 3; shl.b32 %t2, %t2, 2;
shl.b32 %t3, %i, 4; cvt.u64.u32 %e0, %t3; add.u64 %e0, %e0, %in;
cp.async.cg.shared.global [%s0], [%e0], 16, %t2; cp.async.wait_all;
ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%s0];""", shared=".shared .align 16 .b8 tile[1024];")
kernel("cp_async_pipeline", AMPERE, TILE + """
shl.b32 %t3, %i, 2; cvt.u64.u32 %e0, %t3; add.u64 %e0, %e0, %in;
cp.async.ca.shared.global [%s0], [%e0], 4; cp.async.commit_group;
cp.async.ca.shared.global [%s0+4], [%e0+512], 4; cp.async.commit_group;
cp.async.ca.shared.global [%s0+8], [%e0+1024], 4; cp.async.commit_group;
cp.async.wait_group 2; ld.shared.u32 %r0, [%s0]; cp.async.wait_group 1; ld.shared.u32 %r1, [%s0+4];
cp.async.wait_group 0; ld.shared.u32 %r2, [%s0+8];""", shared=".shared .align 16 .b8 tile[1024];")
BAR = ".shared .align 16 .b8 tile[1024];\n.shared .align 8 .b64 bar;"
INIT = """setp.eq.u32 %p0, %me, 0; mov.u32 %s2, bar;
@%p0 mbarrier.init.shared.b64 [%s2], {count}; bar.sync 0;
"""
WAIT = "W{n}: mbarrier.try_wait.parity.shared.b64 %p1, [%s2], {n}; @!%p1 bra W{n};\n"
kernel("mbarrier_phases", HOPPER, TILE + INIT.format(count=64) + LOAD4 + """
st.shared.u32 [%s0], %x0; mbarrier.arrive.shared.b64 %e1, [%s2];
""" + WAIT.format(n=0) + "xor.b32 %s1, %t0, 512; add.u32 %s1, %s1, %t1; ld.shared.u32 %r0, [%s1];\n" +
       "mbarrier.arrive.shared.b64 %e1, [%s2];\n" + WAIT.format(n=1) + "st.shared.u32 [%s0], %r0; ld.shared.u32 %r1, [%s0];", shared=BAR)
kernel("mbarrier_expect", HOPPER, TILE + INIT.format(count=1) + """
@%p0 fence.mbarrier_init.release.cluster;
@%p0 mbarrier.arrive.expect_tx.shared.b64 %e1, [%s2], 1024;
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%t1], [%in], 1024, [%s2];
""" + WAIT.format(n=0) + "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%s0];", shared=BAR)
kernel("bulk_store", HOPPER, TILE + LOAD4 + """
setp.eq.u32 %p0, %me, 0; st.shared.v4.u32 [%s0], {%x3, %x2, %x1, %x0}; fence.proxy.async; bar.sync 0;
mul.lo.u32 %t2, %cta, 1024; cvt.u64.u32 %e0, %t2; add.u64 %e0, %e0, %out;
@%p0 cp.async.bulk.global.shared::cta.bulk_group [%e0], [%t1], 1024;
@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0; bra DONE;""", shared=BAR)
# All threads of a warp ask for the same copy.
kernel("bulk_store_warp", HOPPER, TILE + LOAD4 + """
setp.ge.u32 %p0, %me, 32; st.shared.v4.u32 [%s0], {%x3, %x2, %x1, %x0}; fence.proxy.async; bar.sync 0;
mul.lo.u32 %t2, %cta, 1024; cvt.u64.u32 %e0, %t2; add.u64 %e0, %e0, %out; @%p0 bra DONE;
cp.async.bulk.global.shared::cta.bulk_group [%e0], [%t1], 1024;
cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; bar.warp.sync 0xffffffff;
st.shared.v4.u32 [%s0], {%r0, %r1, %r2, %r3}; cp.async.bulk.wait_group 0; bra DONE;""", shared=BAR)
for op in ("add", "max", "xor"):
    kernel(f"bulk_reduce_{op}", HOPPER, TILE + LOAD4 + f"""
setp.eq.u32 %p0, %me, 0; st.shared.v4.u32 [%s0], {{%x3, %x2, %x1, %x0}}; fence.proxy.async; bar.sync 0;
mul.lo.u32 %t2, %cta, 1024; cvt.u64.u32 %e0, %t2; add.u64 %e0, %e0, %out;
@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{'b32' if op == 'xor' else 'u32'} [%e0], [%t1], 1024;
@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0; bra DONE;""", shared=BAR)

MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
RANK = "mov.u32 %t3, %cluster_ctarank; xor.b32 %t3, %t3, 1; mapa.shared::cluster.u32 %s1, %s0, %t3;\n"
kernel("cluster_store", HOPPER, TILE + LOAD4 + "\n" + RANK + MEET + """
st.shared::cluster.v4.u32 [%s1], {%x0, %x1, %x2, %x3};
""" + MEET + "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%s0];", shared=BAR, cluster=2)
kernel("cluster_load", HOPPER, TILE + LOAD4 + "\nst.shared.v4.u32 [%s0], {%x0, %x1, %x2, %x3};\n" + RANK + MEET +
       "ld.shared::cluster.v4.u32 {%r0, %r1, %r2, %r3}, [%s1];\n" + MEET, shared=BAR, cluster=2)
kernel("cluster_atomics", HOPPER, TILE + LOAD4 + "\nst.shared.u32 [%s0], %x0;\n" + RANK + MEET +
       "atom.shared::cluster.add.u32 %r0, [%s1], %x1;\n" + MEET + "ld.shared.u32 %r1, [%s0];", shared=BAR, cluster=2)
kernel("cluster_numbers", HOPPER, """mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, %cluster_nctarank; mov.u32 %r2, %clusterid.x;
mov.u32 %r3, %cluster_ctaid.x; mov.u32 %t0, %nclusterid.x; shl.b32 %t0, %t0, 8; or.b32 %r3, %r3, %t0;""", cluster=2, grid=4)
kernel("cluster_async_store", HOPPER, TILE + INIT.format(count=1) + LOAD4 + "\n" + RANK +
       "mapa.shared::cluster.u32 %s3, %s2, %t3;\n@%p0 mbarrier.arrive.expect_tx.shared.b64 %e1, [%s2], 1024;\n" + MEET + """
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%s1], {%x0, %x1, %x2, %x3}, [%s3];
""" + WAIT.format(n=0) + "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%s0];\n" + MEET, shared=BAR, cluster=2)
kernel("cluster_async_store_scope", HOPPER, TILE + INIT.format(count=1) + LOAD4 + "\n" + RANK +
       "mapa.shared::cluster.u32 %s3, %s2, %t3;\n@%p0 mbarrier.arrive.expect_tx.shared.b64 %e1, [%s2], 1024;\n" + MEET + """
st.async.cluster.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%s1], {%x0, %x1}, [%s3]; mov.b64 %e2, {%x2, %x3};
st.async.shared::cta.mbarrier::complete_tx::bytes.b64 [%s0+8], %e2, [%s2];
""" + WAIT.format(n=0) + "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%s0];\n" + MEET, shared=BAR, cluster=2)
kernel("cluster_async_constants", HOPPER, TILE + INIT.format(count=1) + LOAD4 + "\nst.shared.v4.u32 [%s0], {%x0, %x1, %x2, %x3};\n" + RANK +
       "mapa.shared::cluster.u32 %s3, %s2, %t3;\n@%p0 mbarrier.arrive.expect_tx.shared.b64 %e1, [%s2], 1024;\n" + MEET + """
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%s1], 0x123456789abcdef, [%s3];
st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%s1+8], 7, [%s3];
""" + WAIT.format(n=0) + "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%s0];\n" + MEET, shared=BAR, cluster=2)
kernel("cluster_multicast", HOPPER, TILE + INIT.format(count=1) +
       "@%p0 mbarrier.arrive.expect_tx.shared.b64 %e1, [%s2], 1024;\n" + MEET + """
mov.u32 %t2, %cluster_ctarank; setp.eq.and.u32 %p2, %t2, 0, %p0; mov.u16 %h0, 3;
@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%t1], [%in], 1024, [%s2], %h0;
""" + WAIT.format(n=0) + "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%s0];\n" + MEET, shared=BAR, cluster=2)

APART = "mul.lo.u32 %t0, %me, 24; mov.u32 %t1, tile; add.u32 %s0, %t0, %t1;\n"
WIDER = ".shared .align 16 .b8 tile[1536];"
# The places of two neighbours, in the order of lanes for results that depend on it: every thread its own word.
for op, types in [("add", "u32 u64 f32 f64"), ("min", "u32 s32 u64 s64"), ("max", "u32 s32 u64 s64"), ("and", "b32 b64"),
                  ("or", "b32"), ("xor", "b32"), ("exch", "b32 b64"), ("inc", "u32"), ("dec", "u32")]:
    for t in types.split():
        wide = t.endswith("64")
        v, old = ("%e1", "%e2") if wide else ("%x1", "%r2")
        if t[0] == "f":
            conv = "and.b32 %x1, %x1, 1023; " + ("cvt.rn.f64.u32 %d0, %x1; mov.b64 %e1, %d0;" if wide else "cvt.rn.f32.u32 %g0, %x1; mov.b32 %x1, %g0;")
            v, old = ("%d0", "%d1") if wide else ("%g0", "%g1")
        else:
            conv = "mov.b64 %e1, {%x1, %x2};" if wide else ""
        back = {"%e2": "mov.b64 {%r2, %r3}, %e2;", "%d1": "mov.b64 {%r2, %r3}, %d1;", "%g1": "mov.b32 %r2, %g1;"}.get(old, "")
        reload = "ld.shared.v2.u32 {%r0, %r1}, [%s0];"
        start = "mov.u32 %x0, 0; mov.u32 %x3, 0;" if t[0] == "f" else ""
        kernel(f"atom_{op}_{t}", OLD, APART + LOAD4 + f"\n{start}\n{conv}\nst.shared.v2.u32 [%s0], {{%x0, %x3}}; bar.sync 0;\n"
               f"atom.shared.{op}.{t} {old}, [%s0], {v}; bar.sync 0;\n{back}\n{reload}", shared=WIDER)
kernel("atom_cas_b32", OLD, LOAD4 + "\nst.global.u32 [%o], %x0; and.b32 %t0, %me, 1; add.u32 %t0, %t0, %x0;\natom.global.cas.b32 %r2, [%o], %t0, %x1; ld.global.u32 %r0, [%o];")
kernel("atom_cas_b64", OLD, LOAD4 + "\nmov.b64 %e0, {%x0, %x1}; st.global.u64 [%o], %e0; and.b32 %t0, %me, 1; cvt.u64.u32 %e1, %t0; add.u64 %e1, %e1, %e0; mov.b64 %e2, {%x2, %x3};\natom.global.cas.b64 %e3, [%o], %e1, %e2; mov.b64 {%r2, %r3}, %e3; ld.global.v2.u32 {%r0, %r1}, [%o];")
# Two warps add to the same words; what they add takes long to compute, and the loop of the sum may load its word long before.
kernel("atom_shared_add_f32_late", OLD, LOAD4 + "\nmov.u32 %s0, tile; and.b32 %t0, %me, 31; mad.lo.u32 %s0, %t0, 4, %s0; mov.u32 %t1, 0; setp.lt.u32 %p0, %me, 32; @%p0 st.shared.u32 [%s0], %t1;\nand.b32 %t1, %x0, 7; cvt.rn.f32.u32 %g0, %t1; and.b32 %t1, %x1, 3; cvt.rn.f32.u32 %g1, %t1;\n" + " ".join(["fma.rn.f32 %g0, %g1, 0f3F000000, %g0;"] * 40) + "\nbar.sync 0; atom.shared.add.f32 %g1, [%s0], %g0; bar.sync 0; ld.shared.u32 %r0, [%s0];", shared=".shared .align 16 .b8 tile[128];")
# Through a generic address, of which nobody knows that it is of global memory: a sum of doubles by compare-and-swap, as Numba makes it.
kernel("atom_cas_generic_b64", OLD, LOAD4 + "\nmov.b64 %e0, {%x0, %x1}; st.global.u64 [%o], %e0; mov.b64 %e1, {%x2, %x3};\nL: add.u64 %e2, %e1, %e0;\natom.cas.b64 %e3, [%o], %e1, %e2;\nsetp.ne.u64 %p0, %e3, %e1; mov.u64 %e1, %e3; @%p0 bra L;\nmov.b64 {%r2, %r3}, %e3; ld.global.v2.u32 {%r0, %r1}, [%o];")
kernel("atom_f16x2", OLD, LOAD4 + "\n" + floats("f16", "a", "x", 2) + "\nst.global.u32 [%o], %a0; atom.global.add.noftz.f16x2 %r2, [%o], %a1; ld.global.u32 %r0, [%o];")
kernel("atom_bf16x2", HOPPER, LOAD4 + "\n" + floats("bf16", "a", "x", 2) + "\nst.global.u32 [%o], %a0; atom.global.add.noftz.bf16x2 %r2, [%o], %a1; ld.global.u32 %r0, [%o];")
kernel("red_many", OLD, "mov.u32 %s0, tile;\nsetp.lt.u32 %p0, %me, 4; shl.b32 %t0, %me, 2; add.u32 %s1, %s0, %t0; mov.u32 %t1, 0; @%p0 st.shared.u32 [%s1], %t1; bar.sync 0;\n" + LOAD4 +
       "\nred.shared.add.u32 [%s0], %x0; red.shared.max.u32 [%s0+4], %x1; red.shared.or.b32 [%s0+8], %x2; red.shared.inc.u32 [%s0+12], 10000; bar.sync 0;\nld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%s0];", shared=BAR)

for mode, c in (("idx", "0x1f"), ("up", "0x0"), ("down", "0x1f"), ("bfly", "0x1f"), ("idx", "0x181f"), ("up", "0x1800"), ("down", "0x181f")):
    kernel(f"shfl_{mode}_{c[2:]}", OLD, LOAD4 + f"\nand.b32 %t0, %x1, 31; shfl.sync.{mode}.b32 %r0|%p1, %x0, 5, {c}, -1; shfl.sync.{mode}.b32 %r1, %x2, 3, {c}, -1; selp.u32 %r2, 1, 0, %p1;")
kernel("shfl_variable", OLD, LOAD4 + "\nand.b32 %t0, %x1, 31; shfl.sync.idx.b32 %r0|%p1, %x0, %t0, 0x1f, -1; selp.u32 %r2, 1, 0, %p1;")
# Words in which some halves are the NaN of elements out of bounds.
OOB = "".join(f"mov.b32 {{%h0, %h1}}, %x{k}; and.b32 %t0, %x3, {3 << 4 * k}; setp.eq.u32 %p0, %t0, 0; and.b32 %t0, %x3, {12 << 4 * k}; setp.eq.u32 %p1, %t0, 0; "
              f"selp.b16 %h0, 0x7ff7, %h0, %p0; selp.b16 %h1, 0x7ff7, %h1, %p1; mov.b32 %x{k}, {{%h0, %h1}};\n" for k in (0, 1))
kernel("fma_oob", HOPPER, LOAD4 + "\n" + OOB + "".join(f"fma.rn.oob{how} %a{k}, %x0, %x1, %x2;\n" for k, how in enumerate((".f16x2", ".relu.f16x2", ".sat.f16x2", ".bf16x2"))) + """
fma.rn.oob.relu.bf16x2 %b0, %x0, %x1, %x2;
mov.b32 {%q0, %q1}, %x0; mov.b32 {%q2, %q3}, %x1; mov.b32 {%q4, %q5}, %x2;
fma.rn.oob.f16 %h0, %q0, %q3, %q4; fma.rn.oob.relu.bf16 %h1, %q1, %q2, %q5; mov.b32 %b1, {%h0, %h1};
fma.rn.oob.sat.f16 %h0, %q1, %q3, %q4; fma.rn.oob.bf16 %h1, %q0, %q2, %q5; mov.b32 %b2, {%h0, %h1};
mov.b32 %r0, %a0; shf.l.wrap.b32 %r1, %a2, %a2, 5; xor.b32 %r1, %r1, %a1; shf.l.wrap.b32 %r2, %b0, %b0, 5; xor.b32 %r2, %r2, %a3;
shf.l.wrap.b32 %r3, %b1, %b1, 5; xor.b32 %r3, %r3, %b2;""", shared=".reg .b16 %q<6>;")
kernel("packed_bytes", ["sm_120a", "sm_121a"], LOAD4 + "".join(f"\n{op} %t0, %x{k % 4}, %x{(k + 1) % 4}; shf.l.wrap.b32 %r{k % 4}, %r{k % 4}, %r{k % 4}, 5; xor.b32 %r{k % 4}, %r{k % 4}, %t0;" for k, op in enumerate(
    ["add.u8x4", "add.s8x4", "add.sat.u8x4", "add.sat.s8x4", "sub.u8x4", "sub.s8x4", "sub.sat.u8x4", "sub.sat.s8x4", "min.u8x4", "min.s8x4", "max.u8x4", "max.s8x4", "min.relu.s8x4", "max.relu.s8x4",
     "add.sat.u16x2", "add.sat.s16x2", "add.sat.u32"])) + "\nneg.s8x4 %t0, %x3; xor.b32 %r3, %r3, %t0;")
kernel("votes_half", OLD, LOAD4 + """
and.b32 %t0, %lane, 16; setp.eq.u32 %p0, %t0, 0; and.b32 %t1, %x0, 1; setp.eq.u32 %p1, %t1, 0; @!%p0 bra B;
vote.sync.ballot.b32 %r0, %p1, 0xffff; vote.sync.any.pred %p2, %p1, 0xffff; selp.u32 %r1, 1, 2, %p2; bra C;
B: vote.sync.ballot.b32 %r0, %p1, 0xffff0000; vote.sync.all.pred %p2, %p1, 0xffff0000; selp.u32 %r1, 3, 4, %p2;
C: activemask.b32 %r2; vote.sync.uni.pred %p2, %p0, -1; selp.u32 %r3, 5, 6, %p2; mov.u32 %r2, 0;""")
kernel("match_any", OLD, LOAD4 + "\nand.b32 %t0, %x0, 3; match.any.sync.b32 %r0, %t0, -1; cvt.u64.u32 %e0, %t0; match.any.sync.b64 %r1, %e0, -1; match.all.sync.b32 %r2|%p1, %t0, -1; selp.u32 %r3, 1, 0, %p1;")
for op in ("add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32"):
    kernel(f"redux_{op.replace('.', '_')}", AMPERE, LOAD4 + f"\nor.b32 %x0, %x0, 5; redux.sync.{op} %r0, %x0, -1; and.b32 %t0, %lane, 1; setp.eq.u32 %p0, %t0, 0; @%p0 bra E;\nredux.sync.{op} %r1, %x1, 0xaaaaaaaa; E:")
kernel("elect", HOPPER, "elect.sync %r0|%p0, -1; selp.u32 %r1, 1, 0, %p0;")
kernel("warp_exchange", OLD, TILE + LOAD4 + "\nst.shared.u32 [%s0], %x0; bar.warp.sync -1; xor.b32 %s1, %t0, 48; add.u32 %s1, %s1, %t1; ld.shared.u32 %r0, [%s1];", shared=BAR)

CALL = """.func (.param .b32 r) f(.param .b32 a, .param .b32 b) { .reg .b32 %u<4>; ld.param.b32 %u0, [a]; ld.param.b32 %u1, [b];
  mad.lo.u32 %u2, %u0, %u1, 77; st.param.b32 [r], %u2; ret; }
.func (.param .b32 r) g(.param .b32 a, .param .b32 b) { .reg .b32 %u<4>; ld.param.b32 %u0, [a]; ld.param.b32 %u1, [b];
  sub.u32 %u2, %u0, %u1; st.param.b32 [r], %u2; ret; }
.func (.param .b32 r) fact(.param .b32 a) { .reg .b32 %u<6>; .reg .pred %q; ld.param.b32 %u0, [a]; mov.u32 %u1, 1;
  setp.lt.u32 %q, %u0, 2; @%q bra D; sub.u32 %u2, %u0, 1;
  { .param .b32 pa; .param .b32 pr; st.param.b32 [pa], %u2; call (pr), fact, (pa); ld.param.b32 %u3, [pr]; } mul.lo.u32 %u1, %u3, %u0;
  D: st.param.b32 [r], %u1; ret; }
.func (.param .align 8 .b8 r[16]) swap(.param .align 8 .b8 a[16]) { .reg .b64 %u<2>; ld.param.b64 %u0, [a]; ld.param.b64 %u1, [a+8];
  st.param.b64 [r], %u1; st.param.b64 [r+8], %u0; ret; }
.const .u64 table[2] = {f, g};
"""


def call2(target, proto=""):
    return ("{ .param .b32 pa; .param .b32 pb; .param .b32 pr; st.param.b32 [pa], %x0; st.param.b32 [pb], %x1; "
            f"{proto} call (pr), {target}, (pa, pb){', P' if proto else ''}; ld.param.b32 %r0, [pr]; }}")


PROTO = "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);"
kernel("call_direct", OLD, LOAD4 + "\n" + call2("f"), before=CALL)
kernel("call_indirect", OLD, LOAD4 + "\nand.b32 %t0, %me, 1; shl.b32 %t0, %t0, 3; cvt.u64.u32 %e0, %t0; mov.u64 %e1, table; add.u64 %e0, %e0, %e1; ld.const.u64 %e2, [%e0];\n" + call2("%e2", PROTO), before=CALL)
kernel("call_recursive", OLD, LOAD4 + "\nand.b32 %t0, %x0, 7;\n{ .param .b32 pa; .param .b32 pr; st.param.b32 [pa], %t0; call (pr), fact, (pa); ld.param.b32 %r0, [pr]; }", before=CALL)
kernel("call_struct", OLD, LOAD4 + "\nmov.b64 %e0, {%x0, %x1}; mov.b64 %e1, {%x2, %x3};\n{ .param .align 8 .b8 pa[16]; .param .align 8 .b8 pr[16]; st.param.b64 [pa], %e0; st.param.b64 [pa+8], %e1; call (pr), swap, (pa); ld.param.b64 %e2, [pr]; ld.param.b64 %e3, [pr+8]; }\nmov.b64 {%r0, %r1}, %e2; mov.b64 {%r2, %r3}, %e3;", before=CALL)

for op in ("vadd.u32.u32.s32.sat %r0, %x0.b1, %x1.h0;", "vabsdiff.s32.u32.u32 %r0, %x0.b2, %x1.b3, %x2;", "vmad.s32.s32.u32.shr7 %r0, %x0.h1, %x1.b0, %x2;",
           "vset.s32.u32.lt %r0, %x0.b0, %x1.b1;", "vadd4.u32.u32.u32.add %r0, %x0, %x1, %x2;", "vavrg2.s32.s32.s32 %r0, %x0, %x1, %x2;", "vshl.u32.u32.u32.wrap %r0, %x0, %x1, %x2;"):
    kernel("video_" + op.split(".")[0], OLD, LOAD4 + "\n" + op)

# Sparse products: small integers, metadata that every pair of indices passes.
SPARSE = "mov.b32 %c0, 0; mov.b32 %c1, 0; mov.b32 %c2, 0; mov.b32 %c3, 0;\n"
for name, instr, kind, na, nb, meta, selectors in [
    ("mma_sp_f16_k16", "m16n8k16.row.col.f32.f16.f16.f32", "f16", 2, 2, 0x4E94D8E4, (0, 3)),
    ("mma_sp_f16_k32", "m16n8k32.row.col.f32.f16.f16.f32", "f16", 4, 4, 0x94E4D84E, (0, 1)),
    ("mma_sp_bf16", "m16n8k32.row.col.f32.bf16.bf16.f32", "bf16", 4, 4, 0xE4E4D894, (1,)),
    ("mma_sp_tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", "tf32", 2, 2, 0x4EE4E44E, (0, 2)),
]:
    calls = "\n".join(f"mma.sp::ordered_metadata.sync.aligned.{instr} {regs('c', 4)}, {regs('a', na)}, {regs('b', nb)}, {regs('c', 4)}, %t1, {s};" for s in selectors)
    kernel(name, AMPERE, "\n".join([LOAD4, floats(kind, "a", "x", na), floats(kind, "b", "x", nb), SPARSE, f"mov.b32 %t1, {meta};", calls] +
                                   [f"mov.b32 %r{k}, %c{k};" for k in range(4)]))
for name, instr, na, nb, meta in [
    ("mma_sp_s8_k32", "m16n8k32.row.col.s32.s8.u8.s32", 2, 2, 0x4E94D8E4),
    ("mma_sp_u8_k64", "m16n8k64.row.col.satfinite.s32.u8.s8.s32", 4, 4, 0x94E4D84E),
    ("mma_sp_s4", "m16n8k128.row.col.s32.s4.s4.s32", 4, 4, 0xD8E44E94),
]:
    kernel(name, AMPERE, "\n".join([LOAD4] + [f"mov.b32 %a{k}, %x{k}; not.b32 %b{k}, %x{k}; shl.b32 %c{k}, %x{k}, 8;" for k in range(4)] + [
        f"mov.b32 %t1, {meta};", f"mma.sp::ordered_metadata.sync.aligned.{instr} {regs('r', 4)}, {regs('a', na)}, {regs('b', nb)}, {regs('c', 4)}, %t1, 0;"]))

# Products of a warpgroup: A (64 x 32 bytes) at the tile's start, B (8 x 32 bytes) behind it, as core matrices of 128 bytes.
WG = ".shared .align 1024 .b8 tile[8192];"
WGFILL = """mov.u32 %t1, tile; shl.b32 %t0, %me, 4; add.u32 %s0, %t0, %t1;
st.shared.v4.b32 [%s0], {%a0, %a1, %a2, %a3}; st.shared.v4.b32 [%s0+2048], {%a3, %a1, %a0, %a2}; st.shared.v4.b32 [%s0+4096], {%a1, %a2, %a3, %a0}; st.shared.v4.b32 [%s0+6144], {%a2, %a0, %a1, %a3};
fence.proxy.async; bar.sync 0;
cvt.u64.u32 %e0, %t1; shr.u64 %e0, %e0, 4; or.b64 %e1, %e0, {da}; add.u64 %e2, %e0, 128; or.b64 %e2, %e2, {db};
setp.eq.u32 %p0, 0, 0; mov.b32 %c0, 0; mov.b32 %c1, 0; mov.b32 %c2, 0; mov.b32 %c3, 0;
wgmma.fence.sync.aligned;
"""
WGEND = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n" + " ".join(f"mov.b32 %r{k}, %c{k};" for k in range(4))


def descriptor(leading, stride, mode=0):
    return leading >> 4 << 16 | stride >> 4 << 32 | mode << 62


def signed(n):
    return n - (1 << 64) if n >> 63 else n


def wgmma(name, init, instr, tail, da=descriptor(1024, 128), db=descriptor(128, 256), a="%e1", d=4, count=1, end=WGEND):
    fill = WGFILL.replace("{da}", str(signed(da))).replace("{db}", str(signed(db)))
    one = f"wgmma.mma_async.sync.aligned.{instr} {regs('c', d)}, {a}, %e2, %p0{tail};\n"
    kernel(name, HOPPER, LOAD4 + "\n" + init + "\n" + fill + one * count + end, shared=WG, block=128, grid=1)


WORDS = " ".join(f"mov.b32 %a{k}, %x{k};" for k in range(4))
# 1 or 2 as e4m3 and e5m2.
SMALL = {"e4m3": " ".join(f"and.b32 %a{k}, %x{k}, 0x08080808; add.u32 %a{k}, %a{k}, 0x38383838;" for k in range(4)),
         "e5m2": " ".join(f"and.b32 %a{k}, %x{k}, 0x04040404; add.u32 %a{k}, %a{k}, 0x3c3c3c3c;" for k in range(4))}
wgmma("wgmma_f16", floats("f16", "a", "x", 4), "m64n8k16.f32.f16.f16", ", 1, 1, 0, 0", count=2)
wgmma("wgmma_negated", floats("f16", "a", "x", 4), "m64n8k16.f32.f16.f16", ", -1, 1, 0, 0")
wgmma("wgmma_f16_f16", floats("f16", "a", "x", 4), "m64n8k16.f16.f16.f16", ", 1, -1, 0, 0", d=2)
wgmma("wgmma_bf16", floats("bf16", "a", "x", 4), "m64n8k16.f32.bf16.bf16", ", 1, 1, 0, 0")
wgmma("wgmma_tf32", floats("tf32", "a", "x", 4), "m64n8k8.f32.tf32.tf32", ", 1, 1")
wgmma("wgmma_e4m3", SMALL["e4m3"], "m64n8k32.f32.e4m3.e4m3", ", 1, 1")
wgmma("wgmma_e5m2", SMALL["e5m2"], "m64n8k32.f32.e5m2.e5m2", ", 1, 1")
wgmma("wgmma_s8", WORDS, "m64n8k32.s32.s8.s8", "")
wgmma("wgmma_u8_satfinite", WORDS, "m64n8k32.s32.u8.u8.satfinite", "")
wgmma("wgmma_b1", WORDS, "m64n8k256.s32.b1.b1.and.popc", "")
wgmma("wgmma_held", floats("f16", "a", "x", 4), "m64n8k16.f32.f16.f16", ", 1, 1, 0", a=regs("a", 4))
wgmma("wgmma_held_s8", WORDS, "m64n8k32.s32.s8.u8", "", a=regs("a", 4))
for mode, width in ((3, 32), (2, 64), (1, 128)):
    wide = descriptor(16, 8 * width, mode)
    wgmma(f"wgmma_swizzle_{width}", floats("f16", "a", "x", 4), "m64n8k16.f32.f16.f16", ", 1, 1, 0, 0", da=wide, db=wide)
    wgmma(f"wgmma_major_{width}", floats("bf16", "a", "x", 4), "m64n8k16.f32.bf16.bf16", ", 1, 1, 1, 0",
          da=descriptor(2048, 8 * width, mode), db=descriptor(128, 256))
wgmma("wgmma_major", floats("f16", "a", "x", 4), "m64n8k16.f32.f16.f16", ", 1, 1, 1, 1", da=descriptor(1024, 128), db=descriptor(128, 256))
wgmma("wgmma_groups", floats("f16", "a", "x", 4), "m64n8k16.f32.f16.f16", ", 1, 1, 0, 0",
      end="wgmma.commit_group.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%c0, %c1, %c2, %c3}, %e2, %e1, %p0, 1, 1, 0, 0;\n"
          "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;\n" + WGEND)

# Tensor copies: the words of `in` as a tensor.
TMAP = ", .param .align 64 .b8 p2[128]"
TBAR = ".shared .align 1024 .b8 tile[4096]; .shared .align 8 .b64 bar;"
TMA = """mov.b64 %e7, p2; cvta.param.u64 %e7, %e7; mov.u32 %t1, tile; mov.u32 %s2, bar; setp.eq.u32 %p0, %me, 0;
shl.b32 %t0, %me, 4; and.b32 %t0, %t0, 2047; add.u32 %s0, %t0, %t1; mov.u32 %x0, 0; st.shared.v4.u32 [%s0], {%x0, %x0, %x0, %x0}; st.shared.v4.u32 [%s0+1024], {%x0, %x0, %x0, %x0};
@%p0 mbarrier.init.shared.b64 [%s2], 1; fence.proxy.async; bar.sync 0; mov.u32 %a0, %cta; add.u32 %a1, %cta, 1;
"""


def tensor_load(name, rank, coordinates, bytes, tensormap, mode="tile", tail=""):
    at = "{" + ", ".join(str(c) for c in coordinates) + "}"
    kernel(name, HOPPER, TMA + f"""@%p0 mbarrier.arrive.expect_tx.shared.b64 %e1, [%s2], {bytes};
@%p0 cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%t1], [%e7, {at}], [%s2]{tail};
L: mbarrier.try_wait.parity.shared.b64 %p1, [%s2], 0; @!%p1 bra L;
ld.shared.v4.u32 {{%r0, %r1, %r2, %r3}}, [%s0]; ld.shared.v4.u32 {{%x0, %x1, %x2, %x3}}, [%s0+1024]; """ +
           " ".join(f"mad.lo.u32 %r{k}, %x{k}, 31, %r{k};" for k in range(4)), shared=TBAR, params=TMAP,
           launch=f"[[arg]]\ntensormap = {{ buffer = 0, {tensormap} }}\n")


tensor_load("tensor_1d", 1, ["%a0"], 256, 'type = "u32", dims = [300], box = [64]')
tensor_load("tensor_2d", 2, ["%a0", "%a1"], 512, 'type = "u16", dims = [32, 16], box = [16, 16]')
tensor_load("tensor_2d_outside", 2, [-3, "%a1"], 512, 'type = "u16", dims = [32, 16], box = [16, 16]')
tensor_load("tensor_2d_nan", 2, [25, "%a1"], 512, 'type = "f32", dims = [32, 16], box = [16, 8], fill = "nan"')
tensor_load("tensor_3d", 3, ["%a0", 1, 0], 512, 'type = "u32", dims = [16, 4, 4], box = [8, 4, 4]')
tensor_load("tensor_3d_steps", 3, ["%a0", 0, 1], 256, 'type = "u32", dims = [16, 4, 4], box = [8, 4, 4], steps = [1, 2, 1]')
tensor_load("tensor_5d", 5, [0, "%a0", 0, 1, 0], 512, 'type = "u8", dims = [16, 4, 4, 4, 2], box = [16, 2, 4, 2, 2]')
for width in (32, 64, 128):
    tensor_load(f"tensor_swizzle_{width}", 2, ["%a0", "%a1"], 8 * width,
                f'type = "u16", dims = [{width}, {1024 // width}], box = [{width // 2}, 8], swizzle = {width}')
tensor_load("tensor_im2col", 4, [0, "%a0", 0, 0], 256,
            'type = "u16", dims = [8, 6, 5, 2], im2col = { lower = [-1, -1], upper = [-1, -1], channels = 8, pixels = 16 }', "im2col", ", {1, 1}")
BOX = 'type = "u32", dims = [16, 16], box = [8, 8]'
for name, op in (("store", ""), ("reduce_add", "add"), ("reduce_max", "max"), ("reduce_xor", "xor")):
    cp = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}" if op else "cp.async.bulk.tensor.2d.global.shared::cta"
    kernel(f"tensor_{name}", HOPPER, TMA + LOAD4 + f"""
st.shared.v4.u32 [%s0], {{%x0, %x1, %x2, %x3}}; fence.proxy.async; bar.sync 0; shl.b32 %a0, %cta, 3;
@%p0 {cp}.tile.bulk_group [%e7, {{%a0, 4}}], [%t1];
@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0; bra DONE;""", shared=TBAR, params=TMAP,
           launch="[[arg]]\ntensormap = { buffer = 1, " + BOX + " }\n")

# Textures and surfaces: coordinates from `in`.
PIXELS = random.Random("pixels").randbytes(4 * 16 * 8).hex()
IMAGE = f'[[array]]\nname = "image"\nsize = [16, 8]\nchannels = 4\nformat = "unorm8"\ndata = {{ hex = "{PIXELS}" }}\n'
XY = LOAD4 + """
and.b32 %t0, %x0, 0x7ff; cvt.rn.f32.u32 %g0, %t0; mul.f32 %g0, %g0, 0f3C800000; and.b32 %t0, %x1, 0x3ff; cvt.rn.f32.u32 %g1, %t0; mul.f32 %g1, %g1, 0f3C800000;
ld.param.u64 %e7, [p2];
"""
HANDLE = ", .param .u64 p2"
for name, instr, address, keys in [
    ("tex_2d", "tex.2d.v4.f32.f32", "{%g0, %g1}", ""),
    ("tex_2d_linear", "tex.2d.v4.f32.f32", "{%g0, %g1}", ', filter = "linear"'),
    ("tex_2d_wrap", "tex.2d.v4.f32.f32", "{%g0, %g1}", ', filter = "linear", normalized = true, address = "wrap"'),
    ("tex_2d_mirror", "tex.2d.v4.f32.f32", "{%g0, %g1}", ', normalized = true, address = ["mirror", "border"]'),
    ("tex_2d_offset", "tex.2d.v4.f32.f32", "{%g0, %g1}", ""),
    ("tex_2d_texel", "tex.2d.v4.f32.s32", "{%t0, %t1}", ""),
]:
    more = ", {1, -2}" if name.endswith("offset") else ""
    kernel(name, OLD, XY + f"and.b32 %t0, %x0, 31; and.b32 %t1, %x1, 15;\n.reg .f32 %q<4>;\n{instr} {{%q0, %q1, %q2, %q3}}, [%e7, {address}]{more};\n" +
           " ".join(f"mov.b32 %r{k}, %q{k};" for k in range(4)), params=HANDLE,
           launch='[[arg]]\ntexture = { array = "image"' + keys + " }\n" + IMAGE)
kernel("tld4_2d", OLD, XY + ".reg .f32 %q<4>;\ntld4.g.2d.v4.f32.f32 {%q0, %q1, %q2, %q3}, [%e7, {%g0, %g1}];\n" + " ".join(f"mov.b32 %r{k}, %q{k};" for k in range(4)),
       params=HANDLE, launch='[[arg]]\ntexture = { array = "image" }\n' + IMAGE)
kernel("surface", OLD, XY + """and.b32 %t0, %me, 15; shl.b32 %t0, %t0, 2; shr.u32 %t1, %me, 4; shl.b32 %t2, %cta, 2; add.u32 %t1, %t1, %t2;
suld.b.2d.b32.trap %r0, [%e7, {%t0, %t1}]; sust.b.2d.b32.zero [%e7, {%t0, %t1}], %x2; suld.b.2d.b32.clamp %r1, [%e7, {%t0, %t1}]; suld.b.2d.b32.zero %r2, [%e7, {%t0, 99}];""",
       params=HANDLE, launch='[[arg]]\nsurface = { array = "image" }\n' + IMAGE)


# Geometries, formats, levels, modes and queries. What a fetch leaves goes to `out` whole.
Q = ".reg .f32 %q<8>;\n"
TAKE = "\n" + " ".join(f"mov.b32 %r{k}, %q{k};" for k in range(4))
FOUR = "{%q0, %q1, %q2, %q3}"


def image(size, format="f32", channels=1, layers=0, cube=False, levels=1, samples=1, name="image"):
    """An array of random texels; floats are small numbers of quarters, so that sums are exact."""
    rng = random.Random(f"{size}{format}{channels}{layers}{cube}{levels}{samples}")
    texels = 0
    for level in range(levels):
        n = samples * max(layers, 1) * (6 if cube else 1)
        for side in size:
            n *= max(side >> level, 1)
        texels += n
    count = texels * channels
    if format == "f32":
        data = b"".join(struct.pack("<f", rng.randrange(-128, 128) / 4) for _ in range(count))
    elif format == "f16":
        data = b"".join(struct.pack("<e", rng.randrange(-128, 128) / 4) for _ in range(count))
    else:
        data = rng.randbytes(count * int("".join(c for c in format if c.isdigit())) // 8)
    text = f'[[array]]\nname = "{name}"\nsize = {list(size)}\nchannels = {channels}\nformat = "{format}"\n'
    if layers:
        text += f"layers = {layers}\n"
    if cube:
        text += "cube = true\n"
    if levels > 1:
        text += f"levels = {levels}\n"
    if samples > 1:
        text += f"samples = {samples}\n"
    return text + f'data = {{ hex = "{data.hex()}" }}\n'


def texture(name, instr, arrays, keys="", tail="", before="", take=TAKE, chips=OLD, more=""):
    """A kernel with the handle of a texture in %e7."""
    kernel(name, chips, XY + Q + before + f"{instr}{tail};" + take, params=HANDLE + more,
           launch='[[arg]]\ntexture = { array = "image"' + keys + " }\n" + arrays)


# A third coordinate, a layer, small slopes that are powers of two.
THIRD = "and.b32 %t2, %x2, 0xff; cvt.rn.f32.u32 %q4, %t2; mul.f32 %q4, %q4, 0f3C800000;\n"
LAYER = "and.b32 %t3, %x3, 3;\n"
SLOPES = "and.b32 %t2, %x2, 3; cvt.rn.f32.u32 %q4, %t2; ex2.approx.f32 %q4, %q4; mul.f32 %q4, %q4, 0f3D800000; mov.f32 %q5, 0f3D000000;\n"
LINEAR = ', filter = "linear"'
WRAP = ', normalized = true, address = "wrap"'
NORMAL = "mul.f32 %g0, %g0, 0f3D000000; mul.f32 %g1, %g1, 0f3D800000;\n"
texture("tex_1d", f"tex.1d.v4.f32.f32 {FOUR}, [%e7, {{%g0}}]", image([24]), LINEAR)
texture("tex_1d_offset", f"tex.1d.v4.f32.f32 {FOUR}, [%e7, {{%g0}}]", image([24], channels=2), tail=", {-3}")
texture("tex_3d", f"tex.3d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1, %q4, %q4}}]", image([16, 8, 4]), LINEAR, before=THIRD)
texture("tex_3d_offset", f"tex.3d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1, %q4, %q4}}]", image([16, 8, 4]), before=THIRD, tail=", {1, -2, 1, 0}")
texture("tex_3d_wrap", f"tex.3d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1, %q4, %q4}}]", image([4, 8, 2]), WRAP, before=THIRD)
texture("tex_a1d", f"tex.a1d.v4.f32.f32 {FOUR}, [%e7, {{%t3, %g0}}]", image([16], layers=3), LINEAR, before=LAYER)
texture("tex_a2d", f"tex.a2d.v4.f32.f32 {FOUR}, [%e7, {{%t3, %g0, %g1, %g1}}]", image([16, 8], layers=3), LINEAR, before=LAYER)
texture("tex_a2d_offset", f"tex.a2d.v4.f32.f32 {FOUR}, [%e7, {{%t3, %g0, %g1, %g1}}]", image([16, 8], layers=4), before=LAYER, tail=", {2, -1}")
texture("tex_3d_texel", f"tex.3d.v4.f32.s32 {FOUR}, [%e7, {{%t0, %t1, %t2, %t2}}]", image([8, 4, 4]),
        before="and.b32 %t0, %x0, 7; and.b32 %t1, %x1, 3; and.b32 %t2, %x2, 3;\n")
texture("tex_1d_texel", f"tex.1d.v4.f32.s32 {FOUR}, [%e7, {{%t0}}]", image([64]), before="and.b32 %t0, %x0, 63;\n")
texture("tex_a1d_texel", f"tex.a1d.v4.f32.s32 {FOUR}, [%e7, {{%t3, %t0}}]", image([32], layers=4), before=LAYER + "and.b32 %t0, %x0, 31;\n")
texture("tex_a2d_texel", f"tex.a2d.v4.f32.s32 {FOUR}, [%e7, {{%t3, %t0, %t1, %t1}}]", image([16, 8], layers=4),
        before=LAYER + "and.b32 %t0, %x0, 15; and.b32 %t1, %x1, 7;\n")
texture("tex_2dms", f"tex.2dms.v4.f32.s32 {FOUR}, [%e7, {{%t3, %t0, %t1, %t1}}]", image([8, 4], samples=4),
        before=LAYER + "and.b32 %t0, %x0, 7; and.b32 %t1, %x1, 3;\n")
texture("tex_a2dms", f"tex.a2dms.v4.f32.s32 {FOUR}, [%e7, {{%t3, %t2, %t0, %t1}}]", image([8, 4], samples=4, layers=2),
        before=LAYER + "and.b32 %t0, %x0, 7; and.b32 %t1, %x1, 3; and.b32 %t2, %x2, 1;\n")
# A direction whose longest part is 2 or -2, so that it is divided exactly; which one, two bits tell.
DIRECTION = """and.b32 %t0, %x0, 0xff; sub.u32 %t0, %t0, 128; cvt.rn.f32.s32 %g0, %t0; mul.f32 %g0, %g0, 0f3C000000;
and.b32 %t1, %x1, 0xff; sub.u32 %t1, %t1, 128; cvt.rn.f32.s32 %g1, %t1; mul.f32 %g1, %g1, 0f3C000000;
and.b32 %t2, %x2, 1; setp.eq.u32 %p0, %t2, 0; selp.f32 %q4, 0f40000000, 0fC0000000, %p0;
bfe.u32 %t2, %x2, 1, 2; setp.eq.u32 %p0, %t2, 0; setp.eq.u32 %p1, %t2, 1;
selp.f32 %q5, %q4, %g0, %p0; selp.f32 %q6, %q4, %g1, %p1; selp.f32 %q7, %g0, %q4, %p0; selp.f32 %q7, %g1, %q7, %p1;
"""
texture("tex_cube", f"tex.cube.v4.f32.f32 {FOUR}, [%e7, {{%q5, %q6, %q7, %q7}}]", image([8, 8], cube=True), before=DIRECTION)
texture("tex_acube", f"tex.acube.v4.f32.f32 {FOUR}, [%e7, {{%t3, %q5, %q6, %q7}}]", image([4, 4], cube=True, layers=2), before=DIRECTION + LAYER)
texture("tex_2d_level", f"tex.level.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8], levels=4), WRAP + ', mip_filter = "linear"',
        before=THIRD + NORMAL, tail=", %q4")
texture("tex_a2d_level", f"tex.level.a2d.v4.f32.f32 {FOUR}, [%e7, {{%t3, %g0, %g1, %g1}}]", image([16, 8], levels=3, layers=2), WRAP + ", levels = [0.5, 1.5]",
        before=THIRD + NORMAL + LAYER, tail=", %q4")
texture("tex_2d_level_texel", f"tex.level.2d.v4.f32.s32 {FOUR}, [%e7, {{%t0, %t1}}]", image([16, 8], levels=3),
        before="and.b32 %t0, %x0, 3; and.b32 %t1, %x1, 1; and.b32 %t2, %x2, 1;\n", tail=", %t2, {1, 1}")
texture("tex_base_2d", f"tex.base.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8], levels=3), LINEAR + WRAP, before=NORMAL)
texture("tex_grad_1d", f"tex.grad.1d.v4.f32.f32 {FOUR}, [%e7, {{%g0}}]", image([32], levels=5), WRAP, before=SLOPES + NORMAL, tail=", {%q4}, {%q5}")
texture("tex_grad_2d", f"tex.grad.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 16], levels=5), WRAP, before=SLOPES + NORMAL,
        tail=", {%q4, 0f00000000}, {0f00000000, %q5}")
texture("tex_grad_a2d", f"tex.grad.a2d.v4.f32.f32 {FOUR}, [%e7, {{%t3, %g0, %g1, %g1}}]", image([16, 16], levels=4, layers=4), WRAP, before=SLOPES + NORMAL + LAYER,
        tail=", {0f00000000, %q4}, {%q5, 0f00000000}, {1, -1}")
texture("tex_grad_3d", f"tex.grad.3d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1, %g0, %g0}}]", image([8, 8, 8], levels=4), WRAP, before=SLOPES + NORMAL,
        tail=", {%q4, 0f00000000, 0f00000000, 0f00000000}, {0f00000000, %q5, 0f00000000, 0f00000000}")
# The slopes of these are sums that the code makes itself; two bits behind the point keep them exact.
for name, format, channels, kind in [("u8", "u8", 4, "u32"), ("s8", "s8", 2, "s32"), ("u16", "u16", 4, "u32"), ("s16", "s16", 1, "s32"),
                                     ("u32", "u32", 2, "u32"), ("s32", "s32", 1, "s32")]:
    texture(f"tex_2d_{name}", f"tex.2d.v4.{kind}.f32 {{%r0, %r1, %r2, %r3}}, [%e7, {{%g0, %g1}}]", image([16, 8], format, channels), take="")
for name, format, channels in [("unorm16", "unorm16", 2), ("snorm8", "snorm8", 4), ("snorm16", "snorm16", 1), ("f16", "f16", 4)]:
    texture(f"tex_2d_{name}", f"tex.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8], format, channels), LINEAR)
texture("tex_2d_halves", "tex.2d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%e7, {%g0, %g1}]", image([16, 8], "unorm8", 4), LINEAR,
        before=".reg .b16 %h<4>;\n".replace("%h<4>", "%h2, %h3"), take="\nmov.b32 %r0, {%h0, %h1}; mov.b32 %r1, {%h2, %h3};")
texture("tex_2d_pairs", "tex.2d.v2.f16x2.f32 {%r0, %r1}, [%e7, {%g0, %g1}]", image([16, 8], "f16", 4), take="")
texture("tex_2d_some", f"tex.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8], "unorm8", 4), take="\nmov.b32 %r0, %q1; mov.b32 %r1, %q3;")
texture("tex_2d_one", f"tex.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8], "unorm8", 4), take="\nmov.b32 %r0, %q2;")
DEPTH = "and.b32 %t2, %x2, 0xff; sub.u32 %t2, %t2, 128; cvt.rn.f32.s32 %q4, %t2; mul.f32 %q4, %q4, 0f3E800000;\n"
texture("tex_2d_depth", f"tex.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8]), LINEAR + ', compare = "greater"', before=DEPTH, tail=", %q4")
texture("tex_a2d_depth", f"tex.a2d.v4.f32.f32 {FOUR}, [%e7, {{%t3, %g0, %g1, %g1}}]", image([16, 8], layers=4), before=DEPTH + LAYER, tail=", %q4")
texture("tex_2d_level_depth", f"tex.level.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8], levels=2), ', compare = "less"', before=DEPTH,
        tail=", 0f3F800000, {1, 1}, %q4")
texture("tex_cube_depth", f"tex.cube.v4.f32.f32 {FOUR}, [%e7, {{%q5, %q6, %q7, %q7}}]", image([8, 8], cube=True), before=DIRECTION + DEPTH, tail=", %q4")
for c in "ra":
    texture(f"tld4_{c}_2d", f"tld4.{c}.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8], "unorm8", 4))
texture("tld4_2d_offset", f"tld4.b.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8], "unorm8", 4), tail=", {5, -7}")
texture("tld4_2d_depth", f"tld4.r.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8]), before=DEPTH, tail=", %q4")
texture("tld4_2d_u32", "tld4.g.2d.v4.u32.f32 {%r0, %r1, %r2, %r3}, [%e7, {%g0, %g1}]", image([16, 8], "u16", 2), take="")
texture("tld4_uni", f"tld4.r.2d.v4.f32.f32.uni {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8]))
texture("tex_uni", f"tex.2d.uni.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 8]), ', filter = "linear"')
texture("tld4_a2d", f"tld4.r.a2d.v4.f32.f32 {FOUR}, [%e7, {{%t3, %g0, %g1, %g1}}]", image([16, 8], layers=3), before=LAYER)
texture("tld4_cube", f"tld4.r.cube.v4.f32.f32 {FOUR}, [%e7, {{%q5, %q6, %q7, %q7}}]", image([8, 8], cube=True), before=DIRECTION)
texture("tex_whether", f"tex.2d.v4.f32.f32 {FOUR}|%p0, [%e7, {{%g0, %g1}}]", image([16, 8]), take=TAKE + " selp.u32 %r3, 7, 9, %p0;")
# Handles that differ among the lanes of a warp.
CHOOSE = ".reg .b64 %u; ld.param.u64 %u, [p3]; and.b32 %t2, %x2, 1; setp.eq.u32 %p0, %t2, 0; selp.b64 %e7, %e7, %u, %p0;\n"
OTHER = '[[arg]]\ntexture = { array = "other", filter = "linear" }\n'
TWO = image([16, 8]) + image([8, 8], name="other")
for name, instr, before in [
    ("tex_handles", f"tex.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", ""),
    ("tex_handles_texel", f"tex.2d.v4.f32.s32 {FOUR}, [%e7, {{%t0, %t1}}]", "and.b32 %t0, %x0, 7; and.b32 %t1, %x1, 7;\n"),
    ("tex_handles_level", f"tex.level.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}], 0f00000000", ""),
    ("tex_handles_grad", f"tex.grad.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}], {{%g0, %g1}}, {{%g1, %g0}}", ""),
    ("tld4_handles", f"tld4.r.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", ""),
]:
    texture(name, instr, OTHER + TWO, before=CHOOSE + before, more=", .param .u64 p3")
texture("txq_handles", "txq.width.b32 %r0, [%e7]; txq.height.b32 %r1, [%e7]; txq.filter_mode.b32 %r2, [%e7]", OTHER + TWO, before=CHOOSE, more=", .param .u64 p3", take="")
# Queries.
MODES = ', filter = "linear", normalized = true, address = ["wrap", "border", "mirror"]'
for name, asked, arrays, keys in [
    ("txq_sizes", ["width", "height", "depth", "num_mipmap_levels"], image([8, 4, 2], levels=2), ""),
    ("txq_layers", ["array_size", "width", "num_samples", "height"], image([8, 4], layers=5), ""),
    ("txq_format", ["channel_data_type", "channel_order", "normalized_coords", "filter_mode"], image([8, 4], "f16", 2), MODES),
    ("txq_edges", ["addr_mode_0", "addr_mode_1", "addr_mode_2", "width"], image([8, 4]), MODES),
]:
    texture(name, "; ".join(f"txq.{q}.b32 %r{k}, [%e7]" for k, q in enumerate(asked)), arrays, keys, take="")
texture("txq_level", "txq.level.width.b32 %r0, [%e7], %t2; txq.level.height.b32 %r1, [%e7], %t2", image([16, 8], levels=3), take="", before="and.b32 %t2, %x2, 1;\n")


def surface(name, body, arrays, chips=OLD):
    kernel(name, chips, XY + body, params=HANDLE, launch='[[arg]]\nsurface = { array = "image" }\n' + arrays)


# Every thread has a texel of its own: 64 in x, 2 in y.
OWN = "mov.b32 %t0, %me; mov.b32 %t1, %cta;\n"
surface("suq", "suq.width.b32 %r0, [%e7]; suq.height.b32 %r1, [%e7]; suq.channel_data_type.b32 %r2, [%e7]; suq.channel_order.b32 %r3, [%e7];", image([8, 4], "snorm16", 4))
surface("suq_layers", "suq.array_size.b32 %r0, [%e7]; suq.width.b32 %r1, [%e7]; suq.memory_layout.b32 %r2, [%e7];", image([8, 4], "u8", 1, layers=3))
for name, kind, bytes, store, zero in [("b8", "b8", 1, "%h0", "%h1"), ("b16", "b16", 2, "%h0", "%h1"), ("b32", "b32", 4, "%x2", "%r1"), ("b64", "b64", 8, "%e5", "%e6")]:
    load = {"b8": "%h1", "b16": "%h1", "b32": "%r1", "b64": "%e6"}[name]
    give = {"b8": "cvt.u32.u16 %r1, %h1;", "b16": "cvt.u32.u16 %r1, %h1;", "b32": "", "b64": "mov.b64 {%r1, %r2}, %e6;"}[name]
    make = {"b8": "cvt.u16.u32 %h0, %x2;", "b16": "cvt.u16.u32 %h0, %x2;", "b32": "", "b64": "mov.b64 %e5, {%x2, %x3};"}[name]
    surface(f"surf_{name}", OWN + f"mul.lo.u32 %t0, %t0, {bytes}; {make}\nsuld.b.2d.{kind}.trap {load}, [%e7, {{%t0, %t1}}]; {give} mov.b32 %r0, %r1;\n"
            f"sust.b.2d.{kind}.trap [%e7, {{%t0, %t1}}], {store}; suld.b.2d.{kind}.clamp {load}, [%e7, {{%t0, %t1}}]; {give}",
            image([64, 2], f"u{8 * bytes}" if bytes < 8 else "u32", 1 if bytes < 8 else 2))
surface("surf_v4", OWN + "shl.b32 %t0, %t0, 4; suld.b.2d.v4.b32.zero {%r0, %r1, %r2, %r3}, [%e7, {%t0, %t1}]; sust.b.2d.v4.b32.zero [%e7, {%t0, %t1}], {%x3, %x2, %x1, %x0};",
        image([64, 2], "u32", 4))
surface("surf_v2_b64", OWN + "shl.b32 %t0, %t0, 4; suld.b.2d.v2.b64.zero {%e5, %e6}, [%e7, {%t0, %t1}]; mov.b64 {%r0, %r1}, %e5; mov.b64 {%r2, %r3}, %e6; sust.b.2d.v2.b64.zero [%e7, {%t0, %t1}], {%e6, %e5};",
        image([64, 2], "u32", 4))
surface("surf_1d", "shl.b32 %t0, %i, 2; suld.b.1d.b32.trap %r0, [%e7, {%t0}]; sust.b.1d.b32.trap [%e7, {%t0}], %x2; suld.b.1d.b32.zero %r1, [%e7, {9999996}]; suld.b.1d.b32.clamp %r2, [%e7, {9999996}];",
        image([160], "u32"))
surface("surf_3d", "and.b32 %t0, %me, 15; shl.b32 %t0, %t0, 2; shr.u32 %t1, %me, 4; suld.b.3d.b32.trap %r0, [%e7, {%t0, %t1, %cta, %cta}]; sust.b.3d.b32.trap [%e7, {%t0, %t1, %cta, %cta}], %x2; suld.b.3d.b32.zero %r1, [%e7, {%t0, %t1, 7, 7}];",
        image([16, 4, 2], "u32"))
surface("surf_a2d", "and.b32 %t0, %me, 15; shl.b32 %t0, %t0, 2; shr.u32 %t1, %me, 4; suld.b.a2d.b32.trap %r0, [%e7, {%cta, %t0, %t1, %t1}]; sust.b.a2d.b32.trap [%e7, {%cta, %t0, %t1, %t1}], %x2; suld.b.a2d.b32.clamp %r1, [%e7, {7, 0, 0, 0}];",
        image([16, 4], "u32", layers=3))
surface("surf_a1d", "shl.b32 %t0, %me, 2; suld.b.a1d.b32.trap %r0, [%e7, {%cta, %t0}]; sust.b.a1d.b32.trap [%e7, {%cta, %t0}], %x2; suld.b.a1d.b32.zero %r1, [%e7, {5, 0}];", image([64], "u32", layers=2))
for name, format, channels, value in [("unorm8", "unorm8", 4, "%g"), ("f16", "f16", 2, "%g"), ("s16", "s16", 4, "%x"), ("u8", "u8", 2, "%x"), ("snorm16", "snorm16", 1, "%g")]:
    four = "mov.b32 %s0, %x0; mov.b32 %s1, %x1; mov.b32 %s2, %x2; mov.b32 %s3, %x3;" if value == "%x" else \
        "mul.f32 %g0, %g0, 0f3D800000; mov.b32 %s0, %g0; mov.b32 %s1, %g1; neg.f32 %g0, %g0; mov.b32 %s2, %g0; mov.b32 %s3, 0f3F000000;"
    # Where the texels are read again as words, the formats are seen.
    words = {"unorm8": 4, "f16": 4, "s16": 8, "u8": 2, "snorm16": 2}[name]
    kind = "b32" if words >= 4 else "b16"
    back = "%r0" if words >= 4 else "%h0"
    surface(f"surf_p_{name}", OWN + f"{four}\nsust.p.2d.v4.b32.trap [%e7, {{%t0, %t1}}], {{%s0, %s1, %s2, %s3}};\nmul.lo.u32 %t0, %t0, {words};\nsuld.b.2d.{kind}.trap {back}, [%e7, {{%t0, %t1}}];" +
            ("" if words >= 4 else " cvt.u32.u16 %r0, %h0;"), image([64, 2], format, channels))
surface("surf_p_some", OWN + "sust.p.2d.v2.b32.zero [%e7, {%t0, %t1}], {%x0, %x1}; sust.p.2d.b32.zero [%e7, {%t0, 9}], %x0; shl.b32 %t0, %t0, 3; suld.b.2d.v2.b32.trap {%r0, %r1}, [%e7, {%t0, %t1}];",
        image([64, 2], "u16", 4))
surface("surf_p_caches", OWN + "sust.p.2d.v2.b32.cg.zero [%e7, {%t0, %t1}], {%x0, %x1}; shl.b32 %t2, %t0, 3; suld.b.2d.v2.b32.trap {%r0, %r1}, [%e7, {%t2, %t1}]; "
        "sust.p.2d.b32.cs.zero [%e7, {%t0, %t1}], %x2; suld.b.2d.b32.trap %r2, [%e7, {%t2, %t1}]; sust.p.2d.v4.b32.wt.trap [%e7, {%t0, %t1}], {%x0, %x1, %x2, %x3}; sust.p.2d.b32.wb.clamp [%e7, {9999, 9999}], %x0;",
        image([65, 3], "u16", 4))
# Reductions by all threads on a few words.
PLACE = "and.b32 %t0, %x0, 12; and.b32 %t1, %x1, 1;\n"
for op, kind in [("add", "u32"), ("min", "s32"), ("max", "s32"), ("and", "b32"), ("or", "b32"), ("min", "u32"), ("max", "u32")]:
    suffix = "_u32" if kind == "u32" and op != "add" else ""
    surface(f"sured_{op}{suffix}", PLACE + f"sured.b.{op}.2d.{kind}.trap [%e7, {{%t0, %t1}}], %x2; sured.b.{op}.2d.{kind}.zero [%e7, {{%t0, 77}}], %x2;", image([4, 2], "u32"))
surface("sured_u64", "and.b32 %t0, %x0, 24; mov.b64 %e5, {%x2, %x3}; sured.b.add.1d.u64.trap [%e7, {%t0}], %e5;", image([8], "u32"))
surface("sured_p", "and.b32 %t0, %x0, 3; and.b32 %t1, %x1, 1; sured.p.add.2d.b32.trap [%e7, {%t0, %t1}], %x2; add.u32 %t0, %t0, 4; sured.p.min.2d.b32.trap [%e7, {%t0, %t1}], %x3;", image([8, 2], "s32"))
surface("sured_p_unsigned", "and.b32 %t0, %x0, 3; and.b32 %t1, %x1, 1; sured.p.max.2d.b32.trap [%e7, {%t0, %t1}], %x2;", image([8, 2], "u32"))
# References of the module that the launch binds, and the independent mode, in which samplers are apart.
BIND = '[[bind]]\nname = "{}"\n{} = {{ {} }}\n'
kernel("tex_reference", OLD, XY + Q + f"tex.2d.v4.f32.f32 {FOUR}, [pixels, {{%g0, %g1}}]; txq.width.b32 %r0, [pixels];" + TAKE, before=".global .texref pixels;",
       params=HANDLE, launch="[[arg]]\nu64 = 0\n" + image([16, 8]) + BIND.format("pixels", "texture", 'array = "image", filter = "linear"'))
kernel("surf_reference", OLD, XY + OWN + "shl.b32 %t0, %t0, 2; suld.b.2d.b32.trap %r0, [pixels, {%t0, %t1}]; sust.b.2d.b32.trap [pixels, {%t0, %t1}], %x2;",
       before=".global .surfref pixels;", params=HANDLE, launch="[[arg]]\nu64 = 0\n" + image([64, 2], "u32") + BIND.format("pixels", "surface", 'array = "image"'))
SAMPLER = '[[arg]]\nsampler = { filter = "linear", address = "border", border = [4, 0, 0, 1] }\n'
for name, instr, arrays in [
    ("independent_2d", f"tex.2d.v4.f32.f32 {FOUR}, [%e7, %u, {{%g0, %g1}}];", image([16, 8])),
    ("independent_3d", THIRD + f"tex.3d.v4.f32.f32 {FOUR}, [%e7, %u, {{%g0, %g1, %q4, %q4}}];", image([16, 8, 4])),
    ("independent_grad", SLOPES + f"tex.grad.2d.v4.f32.f32 {FOUR}, [%e7, %u, {{%g0, %g1}}], {{%q4, %q5}}, {{%q5, %q5}};", image([16, 8], levels=3)),
    ("independent_tld4", f"tld4.r.2d.v4.f32.f32 {FOUR}, [%e7, %u, {{%g0, %g1}}];", image([16, 8])),
    ("independent_level", f"tex.level.2d.v4.f32.f32 {FOUR}, [%e7, %u, {{%g0, %g1}}], %g1;", image([16, 8], levels=3)),
]:
    kernel(f"tex_{name}", OLD, XY + Q + ".reg .b64 %u; ld.param.u64 %u, [p3];\n" + instr + TAKE, params=HANDLE + ", .param .u64 p3",
           launch='[[arg]]\ntexture = { array = "image" }\n' + SAMPLER + arrays)
# Gradients that sm_90 has no instruction for: a function of the system is called.
SLOPE4 = ", {%q4, 0f00000000, 0f00000000, 0f00000000}, {0f00000000, %q5, 0f00000000, 0f00000000}"
FACE = DIRECTION + "mov.f32 %q3, 0f3D000000;\n"
FACES = ", {0f00000000, %q3, %q3, %q3}, {%q3, 0f00000000, %q3, %q3}"
texture("tex_grad_3d_offset", f"tex.grad.3d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1, %g0, %g0}}]", image([8, 8, 8], levels=4), WRAP, before=SLOPES + NORMAL,
        tail=SLOPE4 + ", {1, -2, 3, 3}")
texture("tex_grad_3d_halves", "tex.grad.3d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%e7, {%g0, %g1, %g0, %g0}]", image([8, 8, 8], "f16", 4, levels=4), WRAP,
        before=SLOPES + NORMAL + ".reg .b16 %h2, %h3;\n", take="\nmov.b32 %r0, {%h0, %h1}; mov.b32 %r1, {%h2, %h3};", tail=SLOPE4)
texture("tex_grad_cube", f"tex.grad.cube.v4.f32.f32 {FOUR}, [%e7, {{%q5, %q6, %q7, %q7}}]", image([8, 8], cube=True), before=FACE, tail=FACES)
texture("tex_grad_acube", f"tex.grad.acube.v4.f32.f32 {FOUR}, [%e7, {{%t3, %q5, %q6, %q7}}]", image([4, 4], cube=True, layers=2), before=FACE + LAYER, tail=FACES)
texture("tex_grad_cube_depth", f"tex.grad.cube.v4.f32.f32 {FOUR}, [%e7, {{%q5, %q6, %q7, %q7}}]", image([8, 8], cube=True), ', compare = "less"',
        before=FACE + DEPTH, tail=FACES + ", %q4")
texture("tex_grad_2d_depth", f"tex.grad.2d.v4.f32.f32 {FOUR}, [%e7, {{%g0, %g1}}]", image([16, 16], levels=5), WRAP + ', compare = "greater"',
        before=SLOPES + NORMAL, tail=", {%q4, 0f00000000}, {0f00000000, %q5}, %g0")
texture("tex_grad_a2d_offset_depth", f"tex.grad.a2d.v4.f32.f32 {FOUR}, [%e7, {{%t3, %g0, %g1, %g1}}]", image([16, 16], levels=4, layers=4), WRAP,
        before=SLOPES + NORMAL + LAYER, tail=", {0f00000000, %q4}, {%q5, 0f00000000}, {1, -1}, %g1")
kernel("tex_independent_grad_depth", OLD, XY + Q + ".reg .b64 %u; ld.param.u64 %u, [p3];\n" + SLOPES
       + f"tex.grad.2d.v4.f32.f32 {FOUR}, [%e7, %u, {{%g0, %g1}}], {{%q4, %q5}}, {{%q5, %q5}}, {{-1, 2}}, %g1;" + TAKE, params=HANDLE + ", .param .u64 p3",
       launch='[[arg]]\ntexture = { array = "image" }\n' + SAMPLER + image([16, 8], levels=3))
kernel("tex_independent_grad_3d", OLD, XY + Q + ".reg .b64 %u; ld.param.u64 %u, [p3];\n" + SLOPES
       + f"tex.grad.3d.v4.f32.f32 {FOUR}, [%e7, %u, {{%g0, %g1, %g0, %g0}}]" + SLOPE4 + ", {1, 2, -1, 0};" + TAKE, params=HANDLE + ", .param .u64 p3",
       launch='[[arg]]\ntexture = { array = "image" }\n' + SAMPLER + image([8, 8, 8], levels=3))
kernel("txq_independent", OLD, XY + ".reg .b64 %u; ld.param.u64 %u, [p3];\ntxq.width.b32 %r0, [%e7]; txq.channel_data_type.b32 %r1, [%e7]; txq.addr_mode_1.b32 %r2, [%u]; txq.filter_mode.b32 %r3, [%u];",
       params=HANDLE + ", .param .u64 p3", launch='[[arg]]\ntexture = { array = "image" }\n' + SAMPLER + image([16, 8], "snorm8", 2))
kernel("tex_independent_reference", OLD, XY + Q + f"tex.2d.v4.f32.f32 {FOUR}, [pixels, how, {{%g0, %g1}}];" + TAKE, before=".global .texref pixels;\n.global .samplerref how;", params=HANDLE,
       launch="[[arg]]\nu64 = 0\n" + image([16, 8]) + BIND.format("pixels", "texture", 'array = "image"') + BIND.format("how", "sampler", 'filter = "linear", address = "border"'))
kernel("tex_independent_initial", OLD, XY + Q + NORMAL + f"tex.2d.v4.f32.f32 {FOUR}, [pixels, how, {{%g0, %g1}}];" + TAKE,
       before=".global .texref pixels;\n.global .samplerref how = { addr_mode_0 = wrap, addr_mode_1 = mirror, filter_mode = linear };", params=HANDLE,
       launch="[[arg]]\nu64 = 0\n" + image([16, 8]) + BIND.format("pixels", "texture", 'array = "image"'))


def text(name, chips, body, shared, before, cluster, params):
    newer = [chip for chip in NEWER if chip not in LACK.get(name, []) + chips and not chips[0] in NEWER]
    version = "9.2" if chips[0] in NEWER else "8.7"
    return f"""// chips: {' '.join(chips + newer)}
.version {version}
.target {chips[0]}{', texmode_independent' if 'independent' in name else ''}
.address_size 64
{before}
.visible .entry {name}(.param .u64 p0, .param .u64 p1{params})
{{
.reg .b64 %in, %out, %a, %o, %e<8>;
.reg .b32 %me, %cta, %i, %lane, %x<4>, %r<4>, %t<4>, %s<4>, %a<4>, %b<4>, %c<4>;
.reg .b16 %h<2>;
.reg .f32 %g<2>;
.reg .f64 %d<4>;
.reg .pred %p<3>;
{shared}
ld.param.u64 %in, [p0];
ld.param.u64 %out, [p1];
mov.u32 %me, %tid.x;
mov.u32 %cta, %ctaid.x;
mov.u32 %lane, %laneid;
mad.lo.u32 %i, %cta, 64, %me;
mul.wide.u32 %a, %i, 4;
add.u64 %a, %a, %in;
mul.wide.u32 %o, %i, 16;
add.u64 %o, %o, %out;
mov.u32 %r0, 0;
mov.u32 %r1, 0;
mov.u32 %r2, 0;
mov.u32 %r3, 0;
{body}
st.global.v4.u32 [%o], {{%r0, %r1, %r2, %r3}};
DONE:
ret;
}}
"""


def main():
    HERE.mkdir(exist_ok=True)
    for name, (chips, body, shared, cluster, before, block, grid, params, more) in kernels.items():
        (HERE / f"{name}.ptx").write_text(text(name, chips, body, shared, before, cluster, params))
        data = random.Random(name).randbytes(2048 + 1024 * max(grid - 2, 0)).hex()
        launch = f'kernel = "{name}"\ngrid = [{grid}]\nblock = [{block}]\n'
        if cluster:
            launch += f"cluster = [{cluster}]\n"
        launch += f'[[arg]]\nbuffer = {{ hex = "{data}" }}\n[[arg]]\nbuffer = {{ bytes = {16 * max(block, 64) * grid}, fill = 0 }}\nout = "out"\n{more}'
        (HERE / f"{name}.basic.toml").write_text(launch)
    print(len(kernels), "kernels")


if __name__ == "__main__":
    main()
