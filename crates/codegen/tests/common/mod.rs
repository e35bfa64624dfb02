//! Random functions in machine form.

use codegen::abi::Keeps;
use codegen::mir::{Block, BlockId, Call, CallTarget, Edge, Frame, Func, Inst, Op, Term, Vreg};
use sass::form::{ModName as M, SlotName as S};
use sass::inst::{Inst as Sass, Operand};
use sass::reg::{File, Reg};
use sass::{enums, forms as F};

/// A small generator of numbers; the same seed gives the same numbers everywhere.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// What to make.
#[derive(Clone, Copy)]
pub struct Shape {
    pub entry: bool,
    pub instructions: usize,
    /// Values kept alive, about.
    pub live: usize,
    pub branches: bool,
    /// Numbers of functions that may be called.
    pub calls: u32,
    pub limit: u32,
}

pub struct Gen {
    pub f: Func,
    pub rng: Rng,
    pub block: usize,
    /// Values that may be read here, newest last.
    pub words: Vec<Vreg>,
    pub preds: Vec<Vreg>,
    shape: Shape,
}

pub fn function(seed: u64, shape: Shape) -> Func {
    let f = Func {
        name: format!("random{seed}"),
        entry: shape.entry,
        max_gprs: shape.limit,
        frame: Frame {
            outgoing: 0,
            fixed: 0,
            slots: 0,
            size: 0,
            align: if seed.is_multiple_of(5) { 16 } else { 8 },
            grows: false,
            checked: seed.is_multiple_of(3),
            guarded: seed.is_multiple_of(7) && !shape.entry,
        },
        ..Func::default()
    };
    let rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut g = Gen { f, rng, block: 0, words: Vec::new(), preds: Vec::new(), shape };
    let divergent = !shape.entry;
    g.new_block(Vec::new(), 0, divergent);
    let mut ret = Vec::new();
    if !shape.entry {
        for r in [4u8, 5, 6, 7, 20, 21] {
            let v = g.f.new_vreg(File::Gpr);
            g.f.live_in.push((v, Reg::r(r)));
            if r < 20 { g.words.push(v) } else { ret.push((v, Reg::r(r))) }
        }
        let dst: Vec<Vreg> = (0..2).map(|_| g.f.new_vreg(File::Gpr)).collect();
        g.words.extend(&dst);
        g.push(Op::LoadIncoming { dst: dst.into_iter().collect(), offset: 8 });
    }
    for n in 0..4 {
        let v = g.word();
        let load = Sass::new(F::LDC).with(S::Const, Operand::cbank(0, 0x210 + 4 * n));
        g.def(load, v);
    }
    g.pred_def();
    g.region(shape.instructions, 0);
    // Everything that is still there is read, so that it is alive.
    g.stores(shape.live);
    let last = g.block;
    g.f.blocks[last].term = if shape.entry {
        Term::Exit
    } else {
        let v = g.any();
        ret.push((v, Reg::r(4)));
        Term::Ret(ret)
    };
    g.f
}

impl Gen {
    fn new_block(&mut self, params: Vec<Vreg>, depth: u32, divergent: bool) -> usize {
        self.f.blocks.push(Block {
            params,
            insts: Vec::new(),
            term: Term::Unreachable,
            loc: u32::MAX,
            depth,
            divergent,
        });
        self.f.blocks.len() - 1
    }

    fn push(&mut self, op: Op) {
        self.f.blocks[self.block].insts.push(Inst::new(op, u32::MAX));
    }

    fn word(&mut self) -> Vreg {
        self.f.new_vreg(File::Gpr)
    }

    fn def(&mut self, s: Sass, v: Vreg) {
        let r = self.f.reg(v);
        self.push(Op::Sass(s.with(S::Rd, r)));
        self.words.push(v);
    }

    /// Mostly one of the values that are kept alive, sometimes any.
    fn any(&mut self) -> Vreg {
        let n = self.words.len();
        let span = if self.shape.instructions > 800 || self.rng.chance(90) { self.shape.live.min(n) } else { n };
        let i = n - 1 - self.rng.below(span);
        self.words[i]
    }

    fn reg(&mut self) -> Reg {
        if self.rng.chance(4) {
            return Reg::RZ;
        }
        let v = self.any();
        self.f.reg(v)
    }

    fn vector(&mut self, n: usize) -> Reg {
        let mut list = Vec::new();
        while list.len() < n {
            let v = self.any();
            if !list.contains(&v) {
                list.push(v);
            } else {
                let d = self.word();
                self.def(Sass::new(F::MOV_I).with(S::Rb, Operand::imm(7)), d);
                list.push(d);
            }
        }
        self.f.vector(&list)
    }

    fn vector_def(&mut self, s: Sass, n: usize) {
        let list: Vec<Vreg> = (0..n).map(|_| self.word()).collect();
        let r = self.f.vector(&list);
        self.push(Op::Sass(s.with(S::Rd, r)));
        self.words.extend(list);
    }

    fn pred(&mut self) -> Operand {
        if self.preds.is_empty() {
            self.pred_def();
        }
        let span = self.preds.len().min(9);
        let i = self.preds.len() - 1 - self.rng.below(span);
        let o = Operand::reg(self.f.reg(self.preds[i]));
        if self.rng.chance(40) { o.inverted() } else { o }
    }

    fn pred_def(&mut self) {
        let p = self.f.new_vreg(File::Pred);
        let (a, b) = (self.reg(), self.reg());
        let r = self.f.reg(p);
        self.push(Op::Sass(Sass::new(F::ISETP_RR).with(S::Pu, r).with(S::Ra, a).with(S::Rb, b)));
        self.preds.push(p);
    }

    fn stores(&mut self, n: usize) {
        let list: Vec<Vreg> = self.words.iter().rev().take(n).copied().collect();
        let at = self.vector(2);
        for v in list {
            let r = self.f.reg(v);
            self.push(Op::Sass(Sass::new(F::STG).with(S::URc, Reg::ur(4)).with(S::Ra, at).with(S::Rb, r)));
        }
    }

    fn instruction(&mut self) {
        let (a, b, c) = (self.reg(), self.reg(), self.reg());
        let v = self.word();
        match self.rng.below(20) {
            0..=3 => self.def(Sass::new(F::IADD3_RRR).with(S::Ra, a).with(S::Rb, b).with(S::Rc, c), v),
            4 | 5 => self.def(Sass::new(F::FFMA_RRR).with(S::Ra, a).with(S::Rb, b).with(S::Rc, c), v),
            6 => self.def(Sass::new(F::MOV_I).with(S::Rb, Operand::imm(12345)), v),
            7 => {
                let pair = self.vector(2);
                let s = Sass::new(F::IMAD_WIDE_RRR).with(S::Ra, a).with(S::Rb, b).with(S::Rc, pair);
                self.vector_def(s, 2);
            }
            8 => {
                let pair = self.vector(2);
                let (n, size) = [(1, 4), (2, 5), (4, 6)][self.rng.below(3)];
                let s = Sass::new(F::LDG).with(S::UR, Reg::ur(4)).with(S::Ra, pair).with_mod(M::Size, size);
                self.vector_def(s, n);
            }
            9 => {
                let pair = self.vector(2);
                let (n, size) = [(1, 4), (2, 5), (4, 6)][self.rng.below(3)];
                let data = self.vector(n);
                let s = Sass::new(F::STG).with(S::URc, Reg::ur(4)).with(S::Ra, pair).with(S::Rb, data);
                self.push(Op::Sass(s.with_mod(M::Size, size)));
            }
            10 => {
                let (x, y) = (self.vector(2), self.vector(2));
                self.vector_def(Sass::new(F::DADD_RR).with(S::Ra, x).with(S::Rb, y), 2);
            }
            11 | 12 => self.pred_def(),
            13 | 14 => {
                let p = self.pred();
                self.def(Sass::new(F::SEL_RR).with(S::Ra, a).with(S::Rb, b).with(S::Pp, p), v);
            }
            15 => {
                let s = Sass::new(F::MUFU_R).with(S::Rb, a).with_mod(M::Func, enums::mufu::RCP);
                self.def(s, v);
            }
            16 => self.def(Sass::new(F::LDS).with(S::Ra, a), v),
            17 => self.push(Op::Sass(Sass::new(F::STS).with(S::Ra, a).with(S::Rb, b))),
            18 => {
                let mut pairs = Vec::new();
                for _ in 0..1 + self.rng.below(3) {
                    let d = self.word();
                    let s = self.reg();
                    pairs.push((self.f.reg(d), s));
                }
                self.words.extend(pairs.iter().map(|p| Vreg(p.0.index())));
                self.push(Op::Copy(pairs));
            }
            _ => {
                let p = self.pred();
                let (r, x) = (self.f.new_vreg(File::Pred), self.pred());
                let d = self.f.reg(r);
                let s = Sass::new(F::PLOP3).with(S::Pu, d).with(S::Pp, p).with(S::Pq, x);
                self.push(Op::Sass(s.with(S::Lut, Operand::imm(0x80))));
                self.preds.push(r);
            }
        }
    }

    fn call(&mut self) {
        let n = self.rng.below(self.shape.calls as usize) as u32;
        let args = [4u8, 5, 6, 7].map(|r| (self.any(), Reg::r(r))).to_vec();
        let v = self.word();
        let rets = vec![(v, Reg::r(4))];
        let target = if self.rng.chance(30) { CallTarget::Indirect(self.any()) } else { CallTarget::Func(n + 1) };
        // Some keep what functions of the system keep.
        let keeps = if self.rng.chance(30) { Keeps::System } else { Keeps::Usual };
        self.push(Op::Call(Box::new(Call { target, far: false, keeps, top: None, ends: false, args, rets })));
        self.words.push(v);
    }

    /// Code in the current block and blocks after it; values made inside branches do not come out but by parameters.
    fn region(&mut self, budget: usize, depth: u32) {
        let mut left = budget;
        while left > 0 {
            let run = 1 + self.rng.below(12.min(left));
            for _ in 0..run {
                if self.shape.calls > 0 && self.rng.chance(3) { self.call() } else { self.instruction() }
            }
            left -= run.min(left);
            if self.shape.branches && left > 4 && depth < 4 {
                let inner = left / 2;
                match self.rng.below(4) {
                    0 => self.diamond(inner / 2, depth),
                    1 => self.repeat(inner, depth),
                    2 if self.rng.chance(30) => self.switch(inner / 3, depth),
                    _ => continue,
                }
                left -= inner;
            }
        }
    }

    fn divergent(&self) -> bool {
        !self.shape.entry
    }

    fn edge(&mut self, to: usize, words: usize, preds: usize) -> Edge {
        let mut args: Vec<Vreg> = (0..words).map(|_| self.any()).collect();
        for _ in 0..preds {
            let p = self.pred();
            args.push(Vreg(p.as_reg().map_or(0, |r| r.index())));
        }
        Edge { block: BlockId(to as u32), args }
    }

    fn join(&mut self, words: usize, preds: usize, depth: u32) -> usize {
        let mut params: Vec<Vreg> = (0..words).map(|_| self.word()).collect();
        params.extend((0..preds).map(|_| self.f.new_vreg(File::Pred)));
        let divergent = self.divergent();
        self.new_block(params, depth, divergent)
    }

    fn enter(&mut self, b: usize) {
        self.block = b;
        for p in self.f.blocks[b].params.clone() {
            match self.f.vregs[p.index()] {
                File::Pred => self.preds.push(p),
                _ => self.words.push(p),
            }
        }
    }

    fn diamond(&mut self, budget: usize, depth: u32) {
        let divergent = self.divergent();
        let (a, b) = (self.new_block(Vec::new(), depth, divergent), self.new_block(Vec::new(), depth, divergent));
        let (words, preds) = (self.rng.below(6), self.rng.below(3));
        let join = self.join(words, preds, depth);
        let cond = self.pred();
        let one_sided = self.rng.chance(40);
        let then = Edge { block: BlockId(a as u32), args: Vec::new() };
        let els =
            if one_sided { self.edge(join, words, preds) } else { Edge { block: BlockId(b as u32), args: Vec::new() } };
        let at = self.block;
        self.f.blocks[at].term = Term::CondBr { cond, then, els };
        let known = (self.words.len(), self.preds.len());
        for side in [a, b] {
            if side == b && one_sided {
                self.f.blocks[b].term = Term::Exit;
                continue;
            }
            self.block = side;
            self.region(budget, depth + 1);
            let e = self.edge(join, words, preds);
            let at = self.block;
            self.f.blocks[at].term = Term::Br(e);
            self.words.truncate(known.0);
            self.preds.truncate(known.1);
        }
        self.enter(join);
    }

    fn repeat(&mut self, budget: usize, depth: u32) {
        let (words, preds) = (1 + self.rng.below(self.shape.live), self.rng.below(3));
        let head = self.join(words, preds, depth + 1);
        let divergent = self.divergent();
        let e = self.edge(head, words, preds);
        let at = self.block;
        self.f.blocks[at].term = Term::Br(e);
        self.enter(head);
        self.region(budget, depth + 1);
        let cond = self.pred();
        let back = self.edge(head, words, preds);
        let after = self.new_block(Vec::new(), depth, divergent);
        let at = self.block;
        let els = Edge { block: BlockId(after as u32), args: Vec::new() };
        self.f.blocks[at].term = Term::CondBr { cond, then: back, els };
        self.block = after;
    }

    fn switch(&mut self, budget: usize, depth: u32) {
        let divergent = self.divergent();
        let arms: Vec<usize> = (0..3).map(|_| self.new_block(Vec::new(), depth, divergent)).collect();
        let words = self.rng.below(4);
        let join = self.join(words, 0, depth);
        let index = self.any();
        let mut targets: Vec<BlockId> = arms.iter().map(|&b| BlockId(b as u32)).collect();
        targets.push(targets[0]);
        let at = self.block;
        self.f.blocks[at].term = Term::Switch { index, targets };
        let known = (self.words.len(), self.preds.len());
        for b in arms {
            self.block = b;
            self.region(budget, depth + 1);
            let e = self.edge(join, words, 0);
            let at = self.block;
            self.f.blocks[at].term = Term::Br(e);
            self.words.truncate(known.0);
            self.preds.truncate(known.1);
        }
        self.enter(join);
    }
}
