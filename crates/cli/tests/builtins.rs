//! The compiler's builtins, run in the PTX interpreter against the interpreter's own exact operations: every rounding,
//! edges and random operands.

use codegen::expand::builtins;
use codegen::ir::Rnd;
use sim::{Arg, Config, Launch};

/// A xorshift generator: the same operands every time.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The body of a routine as a scope of its caller: parameters are its registers, `ret` goes to its end.
fn inlined(text: &str, routine: &str) -> String {
    let at = text.find(&format!(" {routine}(")).expect("the routine");
    let start = text[..at].rfind(".func").expect("its head");
    let open = text[start..].find('{').expect("its body") + start;
    let close = text[open..].find("\n}").expect("its end") + open;
    let head = &text[start..open];
    let declared: String = head
        .split(['(', ')', ','])
        .filter(|p| p.trim_start().starts_with(".reg"))
        .map(|p| format!("{};\n", p.trim()))
        .collect();
    let names: Vec<&str> = head
        .split(['(', ')', ','])
        .filter(|p| p.trim_start().starts_with(".reg"))
        .map(|p| p.split_whitespace().last().expect("a name"))
        .collect();
    let mut moves = String::new();
    for (name, from) in names[1..].iter().zip(["in0", "in1"]) {
        let ty = head.split(['(', ')', ',']).find(|p| p.trim().ends_with(&format!(" {name}"))).expect("declared");
        let bits = if ty.contains("64") { 64 } else { 32 };
        moves += &format!("mov.b{bits} {name}, {from};\n");
    }
    let bits = if head.contains("64 ") { 64 } else { 32 };
    let body = text[open + 1..close].replace("\tret;", "\tbra $END;");
    format!("{{\n{declared}{moves}{body}\n$END:\nmov.b{bits} got, {};\n}}\n", names[0])
}

/// Runs `routine` and `op` on all pairs and gives the pairs on which they differ.
fn differences(
    file: usize,
    rnd: Rnd,
    routine: &str,
    op: &str,
    ty: &str,
    pairs: &[(u64, u64)],
    unary: bool,
) -> Vec<String> {
    let bytes = if ty.ends_with("64") { 8 } else { 4 };
    let args = if unary { "in0" } else { "in0, in1" };
    let text = builtins::text(file, rnd);
    let body = inlined(&text, routine);
    // Behind the routines, as some call others.
    let text = format!(
        "{text}\n.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)\n{{\n\
         .reg .b64 p<6>; .reg .b32 t<6>; .reg .{ty} in0, in1, got, want; .reg .pred past;\n\
         ld.param.u64 p0, [in]; ld.param.u64 p1, [out]; ld.param.u32 t5, [n];\n\
         mov.u32 t0, %tid.x; mov.u32 t1, %ctaid.x; mov.u32 t2, %ntid.x; mad.lo.u32 t3, t1, t2, t0;\n\
         setp.ge.u32 past, t3, t5; @past bra END;\n\
         mul.wide.u32 p2, t3, {two}; add.u64 p3, p0, p2; add.u64 p4, p1, p2;\n\
         ld.global.{ty} in0, [p3]; ld.global.{ty} in1, [p3+{bytes}];\n\
         {body}\n\
         {op} want, {args};\n\
         st.global.{ty} [p4], got; st.global.{ty} [p4+{bytes}], want;\nEND:\nret;\n}}\n",
        two = 2 * bytes,
    );
    let (m, d) = ptx::parse(&text);
    assert!(!d.iter().any(|d| d.is_error()), "{d:?}");
    let mut data = Vec::new();
    for &(a, b) in pairs {
        data.extend(&a.to_le_bytes()[..bytes]);
        data.extend(&b.to_le_bytes()[..bytes]);
    }
    let buffer = |data: Vec<u8>| Arg::Buffer { data, out: None };
    let launch = Launch {
        kernel: "k".into(),
        grid: [pairs.len().div_ceil(256) as u32, 1, 1],
        block: [256, 1, 1],
        cluster: None,
        shared: 0,
        args: vec![
            buffer(data.clone()),
            buffer(vec![0; data.len()]),
            Arg::Value((pairs.len() as u32).to_le_bytes().to_vec()),
        ],
        ..Launch::default()
    };
    let out = sim::run_ptx(&m, &launch, &Config::default()).unwrap_or_else(|f| panic!("{f:?}\n{text}"));
    let result = &out.buffers[1];
    let word = |i: usize| {
        let mut w = [0u8; 8];
        w[..bytes].copy_from_slice(&result[i * bytes..(i + 1) * bytes]);
        u64::from_le_bytes(w)
    };
    let nan = |v: u64| match ty {
        "f32" => f32::from_bits(v as u32).is_nan(),
        "f64" => f64::from_bits(v).is_nan(),
        _ => false,
    };
    let mut bad = Vec::new();
    for (i, &(a, b)) in pairs.iter().enumerate() {
        let (got, want) = (word(2 * i), word(2 * i + 1));
        // Bits of a NaN of double precision are not defined; single precision has one NaN.
        if got != want && !(ty == "f64" && nan(got) && nan(want)) {
            bad.push(format!("{op}({a:#x}, {b:#x}) = {want:#x}, {routine} gives {got:#x}"));
        }
    }
    bad
}

fn operands(bits: u32, specials: &[u64], random: usize) -> Vec<(u64, u64)> {
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
    let mask = u64::MAX >> (64 - bits);
    let mut out = Vec::new();
    for &a in specials {
        for &b in specials {
            out.push((a, b));
        }
    }
    for i in 0..random {
        let (mut a, mut b) = (rng.next() & mask, rng.next() & mask);
        match i % 4 {
            0 => b >>= rng.next() % bits as u64,
            1 => a >>= rng.next() % bits as u64,
            2 => b = specials[rng.next() as usize % specials.len()],
            _ => {}
        }
        out.push((a, b));
    }
    out
}

fn check(bad: Vec<String>) {
    assert!(bad.is_empty(), "{} differ:\n{}", bad.len(), bad[..bad.len().min(20)].join("\n"));
}

const ROUNDINGS: [(Rnd, &str); 4] = [(Rnd::Rn, "rn"), (Rnd::Rz, "rz"), (Rnd::Rm, "rm"), (Rnd::Rp, "rp")];

#[test]
fn integer_division() {
    let s32 = [1u64, 2, 3, 5, 7, 10, 0xff, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_fffe, 0xffff_ffff];
    let p: Vec<_> = operands(32, &s32, 6000).into_iter().filter(|p| p.1 != 0).collect();
    check(differences(0, Rnd::Rn, "udiv32", "div.u32", "u32", &p, false));
    check(differences(0, Rnd::Rn, "urem32", "rem.u32", "u32", &p, false));
    let s64 = [
        0u64,
        1,
        2,
        3,
        10,
        0xffff_ffff,
        1 << 32,
        (1 << 32) + 1,
        (1 << 53) - 1,
        1 << 53,
        (1 << 53) + 1,
        i64::MAX as u64,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];
    let p = operands(64, &s64, 8000);
    check(differences(1, Rnd::Rn, "udiv64", "div.u64", "u64", &p, false));
    check(differences(1, Rnd::Rn, "udiv64slow", "div.u64", "u64", &p, false));
    check(differences(1, Rnd::Rn, "urem64", "rem.u64", "u64", &p, false));
    check(differences(1, Rnd::Rn, "urem64slow", "rem.u64", "u64", &p, false));
    let some: Vec<_> = p.iter().copied().filter(|p| p.1 != 0).collect();
    check(differences(1, Rnd::Rn, "udiv64known", "div.u64", "u64", &some, false));
    // What is not defined: the one quotient that does not fit.
    let fits = |&(a, b): &(u64, u64)| (a, b) != (1 << 63, u64::MAX);
    let p: Vec<_> = p.into_iter().filter(fits).collect();
    check(differences(1, Rnd::Rn, "sdiv64", "div.s64", "s64", &p, false));
    check(differences(1, Rnd::Rn, "srem64", "rem.s64", "s64", &p, false));
    check(differences(1, Rnd::Rn, "sdiv64slow", "div.s64", "s64", &p, false));
    check(differences(1, Rnd::Rn, "srem64slow", "rem.s64", "s64", &p, false));
}

#[test]
fn single_precision() {
    let s: Vec<u64> = [
        0u32,
        1,
        2,
        0x7f_ffff,
        0x80_0000,
        0x80_0001,
        0x0c80_0000,
        0x0d00_0000,
        0x1000_0000,
        0x3eaa_aaab,
        0x3f7f_ffff,
        0x3f80_0000,
        0x3f80_0001,
        0x4040_0000,
        0x4b7f_ffff,
        0x7e80_0000,
        0x7f00_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7fff_ffff,
    ]
    .iter()
    .flat_map(|&v| [v as u64, (v | 0x8000_0000) as u64])
    .collect();
    let p = operands(32, &s, 8000);
    for (rnd, name) in ROUNDINGS {
        check(differences(2, rnd, "fdiv", &format!("div.{name}.f32"), "f32", &p, false));
        check(differences(2, rnd, "frcp", &format!("rcp.{name}.f32"), "f32", &p, true));
        check(differences(2, rnd, "fsqrt", &format!("sqrt.{name}.f32"), "f32", &p, true));
        // The seldom cases' routines are right for everything.
        check(differences(2, rnd, "fdivslow", &format!("div.{name}.f32"), "f32", &p, false));
        check(differences(2, rnd, "frcpslow", &format!("rcp.{name}.f32"), "f32", &p, true));
        check(differences(2, rnd, "fsqrtslow", &format!("sqrt.{name}.f32"), "f32", &p, true));
    }
    check(differences(2, Rnd::Rn, "frcpnear", "rcp.rn.f32", "f32", &p, true));
    check(differences(2, Rnd::Rn, "fsqrtnear", "sqrt.rn.f32", "f32", &p, true));
}

#[test]
fn double_precision() {
    let s: Vec<u64> = [
        0u64,
        1,
        2,
        0xf_ffff_ffff_ffff,
        0x10_0000_0000_0000,
        0x10_0000_0000_0001,
        0x0340_0000_0000_0000,
        0x0400_0000_0000_0000,
        0x3fd5_5555_5555_5555,
        0x3fef_ffff_ffff_ffff,
        0x3ff0_0000_0000_0000,
        0x3ff0_0000_0000_0001,
        0x4008_0000_0000_0000,
        0x7fe0_0000_0000_0000,
        0x7fef_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
    ]
    .iter()
    .flat_map(|&v| [v, v | 1 << 63])
    .collect();
    let p = operands(64, &s, 8000);
    for (rnd, name) in ROUNDINGS {
        check(differences(3, rnd, "ddiv", &format!("div.{name}.f64"), "f64", &p, false));
        check(differences(3, rnd, "ddivslow", &format!("div.{name}.f64"), "f64", &p, false));
        check(differences(3, rnd, "dsqrt", &format!("sqrt.{name}.f64"), "f64", &p, true));
    }
    let p = operands(64, &s, 100_000);
    check(differences(3, Rnd::Rn, "ddivnear", "div.rn.f64", "f64", &p, false));
    check(differences(3, Rnd::Rn, "drcpnear", "rcp.rn.f64", "f64", &p, true));
    check(differences(3, Rnd::Rn, "dsqrtnear", "sqrt.rn.f64", "f64", &p, true));
}
