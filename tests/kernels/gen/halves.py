"""Writes kernels that compute the same of both halves of words, half by half, into `features/`: straight code and loops, with special values."""

import pathlib
import random

FEATURES = pathlib.Path(__file__).resolve().parent.parent / "features"
random.seed(7)
CH="// chips: sm_80 sm_89 sm_90a sm_100a sm_103a sm_110a sm_120a sm_121a\n.version 8.7\n.target sm_80\n.address_size 64\n\n"
F=[0,0x8000,1,0x8001,0x3ff,0x83ff,0x400,0x8400,0x3c00,0xbc00,0x7bff,0xfbff,0x7c00,0xfc00,0x7e00,0xfe00,0x7c01,0x7d55,0xffff,0x3555,0x3800,0x4200]
B=[0,0x8000,1,0x8001,0x7f,0x80ff,0x80,0x8080,0x3f80,0xbf80,0x7f7f,0xff7f,0x7f80,0xff80,0x7fc0,0xffc0,0x7f81,0x7fd5,0xffff,0x3eab,0x3f00,0x4040]
def word(S,kind):
    def one():
        r=random.random()
        if r<.45: return random.choice(S)
        if r<.55: return random.getrandbits(16)
        return (random.randrange(0x30,0x48)<<8|random.getrandbits(8)|random.choice([0,0x8000])) if kind=='f' else (random.randrange(0x3e,0x42)<<8|random.getrandbits(8)|random.choice([0,0x8000]))
    return one()|one()<<16
def data(n,S,kind): return b''.join(word(S,kind).to_bytes(4,'little') for _ in range(n)).hex()
def toml(name,ins,out,extra=''):
    t=f'kernel = "{name}"\ngrid = [2]\nblock = [64]\n'
    for i in ins: t+='[[arg]]\nbuffer = { hex = "%s" }\n'%i
    t+='[[arg]]\nbuffer = { bytes = %d, fill = 0 }\nout = "out"\n'%out+extra
    (FEATURES / (name + '.basic.toml')).write_text(t)
HEAD='''ld.param.u64 %in, [p0];
ld.param.u64 %out, [p1];
mov.u32 %me, %tid.x;
mov.u32 %cta, %ctaid.x;
mad.lo.u32 %i, %cta, 64, %me;
'''
REG='''.reg .b64 %in, %out, %a, %o;
.reg .b32 %me, %cta, %i, %w<8>, %n, %t<4>;
.reg .b16 %h<64>, %g<64>;
.reg .pred %p<4>;

'''
# straight
def straight(name,ty,ops,S,kind):
    # ops: list of functions giving (text of lower, text of upper)
    s=CH+f".visible .entry {name}(.param .u64 p0, .param .u64 p1)\n{{\n"+REG+HEAD
    s+=f"mul.wide.u32 %a, %i, 16;\nadd.u64 %a, %a, %in;\nmul.wide.u32 %o, %i, {OUTB};\nadd.u64 %o, %o, %out;\nld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%a];\n"
    for k in range(4): s+=f"mov.b32 {{%h{k}, %g{k}}}, %w{k};\n"
    s+=ops+"ret;\n}\n"
    (FEATURES / (name + '.ptx')).write_text(s)
    toml(name,[data(128*4,S,kind)],128*OUTB)
def chains(ty,lists):
    """each list: ops with d; outputs stored as words or one by one"""
    s='';off=0
    for n,(ops,how) in enumerate(lists):
        d=10
        lo,hi=[],[]
        for op in ops:
            lo.append(op.replace('@','%h')); hi.append(op.replace('#','%h').replace('@','%g'))
        lo=[x.replace('#','%h') for x in lo]
        if how=='mixed': s+='\n'.join(f"{x}\n{y}" for x,y in zip(lo,hi))+'\n'
        else: s+='\n'.join(lo)+'\n'
        last='10'
        if how=='early': s+=f"st.global.b16 [%o+{off}], %h10;\n"
        if how!='mixed': s+='\n'.join(hi)+'\n'
        if how=='word': s+=f"mov.b32 %w4, {{%h10, %g10}};\nst.global.b32 [%o+{off}], %w4;\n"
        elif how=='swapped': s+=f"mov.b32 %w4, {{%g10, %h10}};\nst.global.b32 [%o+{off}], %w4;\n"
        else:
            if how!='early': s+=f"st.global.b16 [%o+{off}], %h10;\n"
            s+=f"st.global.b16 [%o+{off+2}], %g10;\n"
        off+=4
    return s,off
f16=[
 (["add.f16 @10, @0, @1;","mul.f16 @10, @10, @2;"],"mixed"),
 (["add.ftz.f16 @10, @0, @1;","mul.ftz.sat.f16 @10, @10, @2;"],"apart"),
 (["sub.sat.f16 @10, @0, @1;","fma.rn.f16 @10, @10, @2, @3;"],"early"),
 (["mul.f16 @10, @0, #1;","add.f16 @10, @10, @2;","fma.rn.ftz.f16 @10, @10, #3, @0;"],"apart"),
 (["min.f16 @10, @0, @1;","max.NaN.f16 @10, @10, @2;","min.ftz.f16 @10, @10, #3;"],"early"),
 (["min.NaN.f16 @10, @0, @1;","max.f16 @10, @10, @2;"],"mixed"),
 (["neg.f16 @11, @0;","abs.f16 @12, @1;","mul.f16 @10, @11, @12;","add.f16 @10, @10, @11;"],"apart"),
 (["neg.ftz.f16 @11, @0;","add.f16 @10, @11, @1;","sub.ftz.f16 @10, @10, @2;"],"mixed"),
 (["fma.rn.relu.f16 @10, @0, @1, @2;","fma.rn.sat.f16 @10, @10, @1, @2;"],"swapped"),
 (["fma.rn.f16 @10, @0, #1, 0x8000;","fma.rn.f16 @10, @10, 0x3c00, @2;"],"apart"),
 (["mul.f16 @10, @0, 0x3555;","add.ftz.f16 @10, @10, 0x0001;","max.f16 @10, @10, 0x8000;"],"word"),
 (["abs.ftz.f16 @10, @0;","neg.f16 @10, @10;"],"word"),
]
import re
def consts(s,ty):
    # constants of 16 bits stand in registers
    seen=sorted(set(re.findall(r'0x[0-9a-f]{4}\b',s)))
    for n,c in enumerate(seen): s=s.replace(f' {c};',f' %h{40+n};').replace(f' {c},',f' %h{40+n},')
    return ''.join(f"mov.b16 %h{40+n}, {c};\n" for n,c in enumerate(seen))+s
def scalars(ty,off):
    c=lambda x:x.replace('T',ty)
    s=c('''add.rn.T %h20, %h0, %h1;
add.rn.T %g20, %g0, %g1;
mul.rn.T %h21, %h20, %h2;
mul.rn.T %g21, %g20, %g2;
setp.lt.T %p0, %h21, %g21;
selp.b16 %h22, %h20, %g20, %p0;
fma.rn.T %h23, %g21, %h21, %h22;
cvt.f32.T %f0, %g21;
''') if ty=='f16' else c('''fma.rn.T %h20, %h0, %h1, %h3;
fma.rn.T %g20, %g0, %g1, %g3;
fma.rn.T %h21, %h20, %h2, %h2;
fma.rn.T %g21, %g20, %g2, %g2;
max.T %h24, %h21, %g21;
setp.eq.u16 %p0, %h24, %g21;
selp.b16 %h22, %h20, %g20, %p0;
fma.rn.T %h23, %g21, %h21, %h22;
mov.b32 %t0, {%h3, %g21};
and.b32 %t0, %t0, 0xffff0000;
mov.b32 %f0, %t0;
''')
    s=s.replace('add.rn','add').replace('mul.rn','mul')
    s+=f"cvt.u32.u16 %t1, %g20;\nst.global.v4.b16 [%o+{off}], {{%h22, %h23, %g21, %h21}};\nst.global.f32 [%o+{off+8}], %f0;\nst.global.b32 [%o+{off+12}], %t1;\n"
    return s,off+16
REG=REG.replace(".reg .pred",".reg .f32 %f<4>;\n.reg .pred")
s,off=chains('f16',f16); off=(off+15)//16*16; t,off=scalars('f16',off)
OUTB=off
straight('halves_f16','f16',consts(s+t,'f16'),F,'f')
bf=[
 (["fma.rn.bf16 @10, @0, @1, @2;","fma.rn.bf16 @10, @10, @2, @3;"],"mixed"),
 (["fma.rn.bf16 @10, @0, #1, 0x8000;","fma.rn.bf16 @10, @10, 0x3f80, @2;"],"apart"),
 (["fma.rn.relu.bf16 @10, @0, @1, @2;","fma.rn.bf16 @10, @10, @2, #3;"],"early"),
 (["min.bf16 @10, @0, @1;","max.NaN.bf16 @10, @10, #2;","min.xorsign.abs.bf16 @10, @10, @3;"],"early") ,
 (["neg.bf16 @11, @0;","abs.bf16 @12, @1;","fma.rn.bf16 @10, @11, @12, @2;","fma.rn.bf16 @10, @10, @12, @11;"],"swapped"),
 (["max.bf16 @10, @0, @1;","fma.rn.bf16 @10, @10, @10, @2;"],"word"),
]
bf[3]=([x.replace('min.xorsign.abs','max') for x in bf[3][0]],"early")
s,off=chains('bf16',bf); off=(off+15)//16*16; t,off=scalars('bf16',off)
OUTB=off
straight('halves_bf16','bf16',consts(s+t,'bf16'),B,'b')
# loops: a tile of 4 x 4 sums, of columns of a and rows of b; one sum of the row is read in the loop, too
def loop(name,S,kind,body,init,tail):
    s=CH+f".visible .entry {name}(.param .u64 p0, .param .u64 p1)\n{{\n"+REG+HEAD
    s+="and.b32 %t0, %i, 15;\nmul.wide.u32 %a, %t0, 16;\nadd.u64 %a, %a, %in;\nmul.wide.u32 %o, %i, 64;\nadd.u64 %o, %o, %out;\nand.b32 %n, %i, 7;\n"
    s+=init+"setp.eq.u32 %p0, %n, 0;\n@%p0 bra BEHIND;\nAGAIN:\nld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%a];\n"
    for k in range(4): s+=f"mov.b32 {{%h{2*k}, %h{2*k+1}}}, %w{k};\n"
    s+=body+"add.u64 %a, %a, 16;\nsub.u32 %n, %n, 1;\nsetp.ne.u32 %p0, %n, 0;\n@%p0 bra AGAIN;\nBEHIND:\n"+tail+"ret;\n}\n"
    (FEATURES / (name + '.ptx')).write_text(s)
    toml(name,[data(24*4,S,kind)],128*64)
def tile(ops):
    s=''
    for j in range(4):
        for i in (range(4) if j%2==0 else reversed(range(4))):
            for op in ops: s+=op.replace('A',f'%h{i}').replace('B',f'%h{4+j}').replace('C',f'%g{4*j+i}')+'\n'
    return s
init=''.join(f"mov.b16 %g{k}, {'0' if k%3 else '0x8000'};\n" for k in range(16))
one=''.join(f"st.global.b16 [%o+{2*k}], %g{k};\n" for k in range(16))
loop('halves_sums',F,'f',tile(["fma.rn.f16 C, A, B, C;"]),init,one)
loop('halves_sums_bf16',B,'b',tile(["fma.rn.bf16 %h20, A, B, %h30;","fma.rn.bf16 C, %h20, %h31, C;"]),init+"mov.b16 %h30, 0x8000;\nmov.b16 %h31, 0x3f80;\n",
 ''.join(f"mov.b32 %w4, {{%g{2*k}, %g{2*k+1}}};\nst.global.b32 [%o+{4*k}], %w4;\n" for k in range(8)))
# parts of the sums are read in the loop, meet others at a branch, or change places
body=''.join(f"fma.rn.ftz.f16 %g{k}, %h{k%2}, %h{2+k%4//2}, %g{k};\n" for k in range(8))
body+="add.sat.f16 %g8, %g8, %h4;\nadd.sat.f16 %g9, %g9, %h5;\nmin.f16 %g8, %g8, %h6;\nmin.f16 %g9, %g9, %h7;\n"
body+="mov.b16 %h40, %g10;\nfma.rn.f16 %g10, %h0, %h4, %g11;\nfma.rn.f16 %g11, %h1, %h5, %h40;\n"
body+="and.b32 %t1, %n, 1;\nsetp.eq.u32 %p1, %t1, 0;\n@%p1 bra OTHER;\nmul.f16 %g12, %g12, %h0;\nmul.f16 %g13, %g13, %h1;\nadd.f16 %g12, %g12, %h2;\nadd.f16 %g13, %g13, %h3;\nbra MEET;\nOTHER:\nsub.f16 %g12, %g12, %h4;\nsub.f16 %g13, %g13, %h5;\nmax.f16 %g12, %g12, %h7;\nmax.f16 %g13, %g13, %h7;\nMEET:\n"
body+="fma.rn.f16 %g14, %h2, %h4, %g14;\nfma.rn.f16 %g15, %h3, %h5, %g15;\nst.global.b16 [%o+32], %g14;\nst.global.b16 [%o+34], %g15;\n"
body+="ld.global.b16 %h41, [%o+34];\nadd.f16 %g14, %g14, %h41;\nadd.f16 %g15, %g15, %h41;\n"
loop('halves_carried',F,'f',body,init,one)
