//! The text form, printed and parsed; what is printed parses to the same function (places in the PTX text are left out).
//!
//! ```text
//! func saxpy entry max=253 outgoing=0 fixed=0 size=0 align=8 {
//! blk0(): depth=0
//!     S2R Rd=%r0 Sr=0x21
//!     @!%p1 FFMA_RRR.Ftz=1 Rd=%r3 Ra=-%r4 Rb=|%r5| Rc=R7
//!     LDG.Size=6 Rd={%r8,%r9,%r10,%r11} UR=UR4 Ra={%r1,%r2} Imm=0x10
//!     copy %r1=%r2, %r3=RZ
//!     call f0 (%r1=R4) -> (%r5=R4)
//!     incoming %r6,%r7 + 8
//!     brif !%p1, blk1(%r3), blk2()
//! blk1(%r20): depth=1 divergent
//!     ret (%r20=R4)
//! blk2():
//!     exit
//! }
//! ```
//!
//! An instruction is the name of its form, its modifiers by number, its operands by slot; what is left out has its
//! default. Values that arrive in registers stand as `in %r0=R4` before the first block.

use super::{Block, BlockId, Call, CallTarget, Edge, Frame, Func, Inst, Op, Term, Vreg};
use crate::abi::Keeps;
use rustc_hash::FxHashMap;
use sass::form::{FormId, SlotKind};
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};
use smallvec::SmallVec;
use std::fmt::Write;

/// Prints `f`.
pub fn print(f: &Func) -> String {
    let mut o = String::new();
    let kind = if f.entry { "entry" } else { "device" };
    let Frame { outgoing, fixed, size, align, .. } = f.frame;
    let max = f.max_gprs;
    let _ = write!(o, "func {} {kind} max={max} outgoing={outgoing} fixed={fixed} size={size} align={align} ", f.name);
    if let Some(r) = &f.room {
        let _ = write!(o, "shared_start={} shared_words={} shared_threads={} ", r.start, r.words, r.threads);
    }
    o.push_str(if f.lanes_tell { "lanes_tell=1 {\n" } else { "{\n" });
    for &(v, r) in &f.live_in {
        let _ = writeln!(o, "    in {}={r}", f.reg(v));
    }
    for (b, block) in f.blocks.iter().enumerate() {
        let params: Vec<String> = block.params.iter().map(|&p| f.reg(p).to_string()).collect();
        let _ = write!(o, "blk{b}({}): depth={}", params.join(", "), block.depth);
        o.push_str(if block.divergent { " divergent\n" } else { "\n" });
        for inst in &block.insts {
            let other = inst.other.map_or(String::new(), |n| format!(" else {n:#x}"));
            let _ = writeln!(o, "    {}{other}", print_op(f, &inst.op));
        }
        let _ = writeln!(o, "    {}", print_term(f, &block.term));
    }
    o.push_str("}\n");
    o
}

fn pairs(f: &Func, list: &[(Vreg, Reg)]) -> String {
    let one = |&(v, r): &(Vreg, Reg)| {
        if v == Vreg::NONE { format!("_={r}") } else { format!("{}={r}", f.reg(v)) }
    };
    list.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Prints one operation.
pub fn print_op(f: &Func, op: &Op) -> String {
    match op {
        Op::Sass(s) => print_sass(f, s),
        Op::Copy(list) => {
            let list: Vec<String> = list.iter().map(|(d, s)| format!("{d}={s}")).collect();
            format!("copy {}", list.join(", "))
        }
        Op::Call(c) => {
            let target = match c.target {
                CallTarget::Func(n) => format!("f{n}"),
                CallTarget::Symbol(n) => format!("s{n}"),
                CallTarget::Address(lo, hi) => format!("*{}:{}", lo.0, hi.0),
                CallTarget::Indirect(v) => format!("{}{}", if c.far { '@' } else { '*' }, v.0),
            };
            let target = match c.keeps {
                Keeps::Usual => target,
                Keeps::System => format!("careful {target}"),
                Keeps::First(n) => format!("keeps={n} {target}"),
                Keeps::But(first, n) => format!("light={first}+{n} {target}"),
            };
            let target = if c.ends { format!("ends {target}") } else { target };
            let target = c.top.map_or(target.clone(), |n| format!("top={n} {target}"));
            format!("call {target} ({}) -> ({})", pairs(f, &c.args), pairs(f, &c.rets))
        }
        Op::LoadIncoming { dst, offset } => {
            let list: Vec<String> = dst.iter().map(|&v| f.reg(v).to_string()).collect();
            format!("incoming {} + {offset}", list.join(","))
        }
        Op::Hold { ends, begins } => {
            let list = |of: &[Vreg]| of.iter().map(|&v| f.reg(v).to_string()).collect::<Vec<_>>().join(",");
            format!("hold {} -> {}", list(ends), list(begins))
        }
    }
}

fn print_sass(f: &Func, s: &Sass) -> String {
    let mut o = String::new();
    let plain = Sass::new(s.form);
    if s.guard != plain.guard {
        let not = if s.guard.inv { "!" } else { "" };
        if let Value::Reg(r) = s.guard.value {
            let _ = write!(o, "@{not}{r} ");
        }
    }
    let form = s.form();
    o.push_str(form.name);
    for (n, m) in form.mods.iter().enumerate() {
        if s.mods[n] != m.default {
            let _ = write!(o, ".{:?}={}", m.name, s.mods[n]);
        }
    }
    for (n, slot) in form.slots.iter().enumerate() {
        let x = &s.operands[n];
        if *x == plain.operands[n] || slot.bits.is_empty() {
            continue;
        }
        let _ = write!(o, " {:?}=", slot.name);
        for (on, text) in [(x.neg, "-"), (x.inv, if is_pred(slot.kind) { "!" } else { "~" }), (x.abs, "|")] {
            if on {
                o.push_str(text);
            }
        }
        let width = s.slot_width(n);
        let _ = match x.value {
            Value::Reg(r) if r.is_virtual() && width > 1 => {
                let list: Vec<String> = f.vecs[r.index() as usize].iter().map(|&v| f.reg(v).to_string()).collect();
                write!(o, "{{{}}}", list.join(","))
            }
            Value::Reg(r) => write!(o, "{r}"),
            Value::Imm(i) if i.get() < 0 => write!(o, "-{:#x}", i.get().unsigned_abs()),
            Value::Imm(i) => write!(o, "{:#x}", i.get()),
            Value::Const { bank, offset } => write!(o, "c[{bank}][{offset}]"),
            Value::Target(b) => write!(o, "blk{}", b.get()),
        };
        if x.abs {
            o.push('|');
        }
    }
    o
}

fn is_pred(kind: SlotKind) -> bool {
    matches!(kind, SlotKind::Reg(File::Pred | File::Upred))
}

fn print_term(f: &Func, term: &Term) -> String {
    let edge = |e: &Edge| {
        let args: Vec<String> = e.args.iter().map(|&v| f.reg(v).to_string()).collect();
        format!("blk{}({})", e.block.0, args.join(", "))
    };
    match term {
        Term::Br(e) => format!("br {}", edge(e)),
        Term::CondBr { cond, then, els } => {
            let not = if cond.inv { "!" } else { "" };
            let reg = cond.as_reg().map_or("?".to_string(), |r| r.to_string());
            format!("brif {not}{reg}, {}, {}", edge(then), edge(els))
        }
        Term::Switch { index, targets } => {
            let index = if *index == Vreg::NONE { "_".to_string() } else { f.reg(*index).to_string() };
            let list: Vec<String> = targets.iter().map(|t| format!("blk{}", t.0)).collect();
            format!("switch {index}, {}", list.join(", "))
        }
        Term::Exit => "exit".into(),
        Term::Ret(values) => format!("ret ({})", pairs(f, values)),
        Term::Unreachable => "unreachable".into(),
    }
}

struct Parser<'a> {
    f: Func,
    forms: FxHashMap<&'static str, FormId>,
    line: usize,
    text: &'a str,
}

type Res<T> = Result<T, String>;

/// Parses every function of `text`.
///
/// # Errors
/// The first thing that cannot be read, with its line number.
pub fn parse(text: &str) -> Result<Vec<Func>, String> {
    let forms = sass::tables::FORMS.iter().enumerate().map(|(n, f)| (f.name, FormId(n as u16))).collect();
    let mut p = Parser { f: Func::default(), forms, line: 0, text };
    let mut out = Vec::new();
    let mut open = false;
    for (n, line) in p.text.lines().enumerate() {
        p.line = n + 1;
        let line = line.split(';').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let done = p.line(line, &mut open).map_err(|m| format!("line {}: {m}", n + 1))?;
        if done {
            out.push(std::mem::take(&mut p.f));
        }
    }
    if open { Err("the last function is not closed".into()) } else { Ok(out) }
}

fn number(s: &str) -> Res<i64> {
    let (neg, body) = s.strip_prefix('-').map_or((false, s), |b| (true, b));
    let n = match body.strip_prefix("0x") {
        Some(h) => i64::from_str_radix(h, 16),
        None => body.parse(),
    };
    n.map(|n| if neg { -n } else { n }).map_err(|_| format!("'{s}' is no number"))
}

fn block_number(s: &str) -> Res<u32> {
    let n = s.strip_prefix("blk").and_then(|n| n.parse().ok());
    n.ok_or_else(|| format!("'{s}' is no block"))
}

fn inner(s: &str, open: char, close: char) -> Res<&str> {
    let s = s.trim();
    s.strip_prefix(open).and_then(|s| s.strip_suffix(close)).ok_or_else(|| format!("'{s}' needs {open}{close}"))
}

fn list(s: &str) -> impl Iterator<Item = &str> {
    s.split(',').map(str::trim).filter(|x| !x.is_empty())
}

impl Parser<'_> {
    fn line(&mut self, line: &str, open: &mut bool) -> Res<bool> {
        if let Some(rest) = line.strip_prefix("func ") {
            *open = true;
            for (n, word) in rest.split_whitespace().enumerate() {
                match (n, word.split_once('=')) {
                    (0, _) => self.f.name = word.into(),
                    (_, Some((key, value))) => {
                        let value = number(value)? as u32;
                        match key {
                            "max" => self.f.max_gprs = value,
                            "outgoing" => self.f.frame.outgoing = value,
                            "fixed" => {
                                self.f.frame.fixed = value;
                                self.f.frame.slots = value.next_multiple_of(4);
                            }
                            "size" => self.f.frame.size = value,
                            "align" => self.f.frame.align = value,
                            "shared_start" => self.f.room.get_or_insert_default().start = value,
                            "shared_words" => self.f.room.get_or_insert_default().words = value,
                            "shared_threads" => self.f.room.get_or_insert_default().threads = value,
                            "lanes_tell" => self.f.lanes_tell = value != 0,
                            _ => return Err(format!("unknown property '{key}'")),
                        }
                    }
                    _ => self.f.entry |= word == "entry",
                }
            }
            return Ok(false);
        }
        if line == "}" {
            *open = false;
            return Ok(true);
        }
        if let Some(rest) = line.strip_prefix("in ") {
            let pair = self.pairs(rest)?;
            self.f.live_in.extend(pair);
            return Ok(false);
        }
        if line.starts_with("blk") {
            return self.block(line).map(|()| false);
        }
        if self.f.blocks.is_empty() {
            return Err("an instruction outside of a block".into());
        }
        let term = self.term(line)?;
        let last = self.f.blocks.len() - 1;
        if let Some(t) = term {
            self.f.blocks[last].term = t;
        } else {
            let (line, other) = match line.rsplit_once(" else ") {
                Some((line, n)) => (line, Some(number(n)? as u32)),
                None => (line, None),
            };
            let op = self.op(line)?;
            self.f.blocks[last].insts.push(Inst { op, loc: u32::MAX, other });
        }
        Ok(false)
    }

    fn block(&mut self, line: &str) -> Res<()> {
        let (head, tail) = line.split_once(':').ok_or("a block needs a colon")?;
        let at = head.find('(').ok_or("a block needs parameters")?;
        if block_number(&head[..at])? as usize != self.f.blocks.len() {
            return Err("blocks must be numbered in order".into());
        }
        let params = self.values(inner(&head[at..], '(', ')')?)?;
        let depth = tail.split_whitespace().find_map(|w| w.strip_prefix("depth=")).map_or(Ok(0), number)? as u32;
        let divergent = tail.split_whitespace().any(|w| w == "divergent");
        self.f.blocks.push(Block {
            params,
            insts: Vec::new(),
            term: Term::Unreachable,
            loc: u32::MAX,
            depth,
            divergent,
        });
        Ok(())
    }

    fn values(&mut self, s: &str) -> Res<Vec<Vreg>> {
        list(s).map(|x| self.value(x)).collect()
    }

    fn value(&mut self, s: &str) -> Res<Vreg> {
        if s == "_" {
            return Ok(Vreg::NONE);
        }
        match self.reg(s)? {
            r if r.is_virtual() => Ok(Vreg(r.index())),
            _ => Err(format!("'{s}' is no virtual register")),
        }
    }

    fn reg(&mut self, s: &str) -> Res<Reg> {
        let bad = || format!("'{s}' is no register");
        match s {
            "RZ" => return Ok(Reg::RZ),
            "URZ" => return Ok(Reg::URZ),
            "PT" => return Ok(Reg::PT),
            "UPT" => return Ok(Reg::UPT),
            _ => {}
        }
        let (virt, body) = s.strip_prefix('%').map_or((false, s), |b| (true, b));
        let at = body.find(|c: char| c.is_ascii_digit()).ok_or_else(bad)?;
        let file = match body[..at].to_ascii_lowercase().as_str() {
            "r" => File::Gpr,
            "ur" => File::Ugpr,
            "p" => File::Pred,
            "up" => File::Upred,
            "b" => File::Bar,
            _ => return Err(bad()),
        };
        let n: u32 = body[at..].parse().map_err(|_| bad())?;
        if !virt {
            return u8::try_from(n).map(|n| Reg::phys(file, n)).map_err(|_| bad());
        }
        if n >= 1 << 24 {
            return Err(bad());
        }
        if self.f.vregs.len() <= n as usize {
            self.f.vregs.resize(n as usize + 1, File::Gpr);
        }
        self.f.vregs[n as usize] = file;
        Ok(Reg::virt(file, n))
    }

    fn pairs(&mut self, s: &str) -> Res<Vec<(Vreg, Reg)>> {
        let mut out = Vec::new();
        for x in list(s) {
            let (v, r) = x.split_once('=').ok_or_else(|| format!("'{x}' is no pair"))?;
            out.push((self.value(v.trim())?, self.reg(r.trim())?));
        }
        Ok(out)
    }

    fn edge(&mut self, s: &str) -> Res<Edge> {
        let s = s.trim();
        let at = s.find('(').ok_or_else(|| format!("'{s}' is no edge"))?;
        let block = BlockId(block_number(&s[..at])?);
        Ok(Edge { block, args: self.values(inner(&s[at..], '(', ')')?)? })
    }

    fn term(&mut self, line: &str) -> Res<Option<Term>> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Ok(Some(match word {
            "br" => Term::Br(self.edge(rest)?),
            "brif" => {
                let (cond, rest) = rest.split_once(',').ok_or("brif needs a condition")?;
                let at = rest.find(')').ok_or("brif needs two edges")? + 1;
                let (then, els) = rest.split_at(at);
                let (inv, name) = cond.strip_prefix('!').map_or((false, cond), |c| (true, c));
                let mut cond = Operand::reg(self.reg(name)?);
                cond.inv = inv;
                let els = els.trim_start_matches([',', ' ']);
                Term::CondBr { cond, then: self.edge(then)?, els: self.edge(els)? }
            }
            "switch" => {
                let mut words = list(rest);
                let index = self.value(words.next().ok_or("switch needs an index")?)?;
                let targets: Res<Vec<BlockId>> = words.map(|w| block_number(w).map(BlockId)).collect();
                Term::Switch { index, targets: targets? }
            }
            "exit" => Term::Exit,
            "ret" => Term::Ret(self.pairs(inner(rest, '(', ')')?)?),
            "unreachable" => Term::Unreachable,
            _ => return Ok(None),
        }))
    }

    fn op(&mut self, line: &str) -> Res<Op> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "copy" => {
                let mut out = Vec::new();
                for x in list(rest) {
                    let (d, s) = x.split_once('=').ok_or_else(|| format!("'{x}' is no pair"))?;
                    out.push((self.reg(d)?, self.reg(s)?));
                }
                Ok(Op::Copy(out))
            }
            "call" => {
                let (top, rest) = match rest.strip_prefix("top=").and_then(|r| r.split_once(' ')) {
                    Some((n, rest)) => (Some(number(n)? as u32), rest),
                    None => (None, rest),
                };
                let (ends, rest) = rest.strip_prefix("ends ").map_or((false, rest), |r| (true, r));
                let counted = |key| rest.strip_prefix(key).and_then(|r: &str| r.split_once(' '));
                let (keeps, rest) = match (counted("keeps="), counted("light=")) {
                    (Some((n, rest)), _) => (Keeps::First(number(n)? as u8), rest),
                    (None, Some((n, rest))) => {
                        let (first, n) = n.split_once('+').ok_or("where the registers of a light call begin")?;
                        (Keeps::But(number(first)? as u8, number(n)? as u8), rest)
                    }
                    (None, None) => rest.strip_prefix("careful ").map_or((Keeps::Usual, rest), |r| (Keeps::System, r)),
                };
                let (target, rest) = rest.split_once(' ').ok_or("call needs arguments")?;
                let (args, rets) = rest.split_once("->").ok_or("call needs '->'")?;
                let far = target.starts_with('@');
                let target = match target.strip_prefix(['*', '@']) {
                    Some(v) => match v.split_once(':') {
                        Some((lo, hi)) => CallTarget::Address(Vreg(number(lo)? as u32), Vreg(number(hi)? as u32)),
                        None => CallTarget::Indirect(Vreg(number(v)? as u32)),
                    },
                    None if target.starts_with('s') => CallTarget::Symbol(number(&target[1..])? as u32),
                    None => CallTarget::Func(number(target.strip_prefix('f').unwrap_or(target))? as u32),
                };
                let args = self.pairs(inner(args, '(', ')')?)?;
                let rets = self.pairs(inner(rets, '(', ')')?)?;
                Ok(Op::Call(Box::new(Call { target, far, keeps, top, ends, args, rets })))
            }
            "incoming" => {
                let (dst, offset) = rest.split_once('+').ok_or("incoming needs an offset")?;
                let dst: SmallVec<[Vreg; 4]> = self.values(dst)?.into_iter().collect();
                Ok(Op::LoadIncoming { dst, offset: number(offset.trim())? as u32 })
            }
            "hold" => {
                let (ends, begins) = rest.split_once("->").ok_or("hold needs '->'")?;
                Ok(Op::Hold { ends: self.values(ends)?, begins: self.values(begins)? })
            }
            _ => self.sass(line).map(Op::Sass),
        }
    }

    fn sass(&mut self, line: &str) -> Res<Sass> {
        let mut words = line.split_whitespace();
        let mut word = words.next().unwrap_or("");
        let guard = word.strip_prefix('@');
        if guard.is_some() {
            word = words.next().unwrap_or("");
        }
        let mut parts = word.split('.');
        let name = parts.next().unwrap_or("");
        let form = *self.forms.get(name).ok_or_else(|| format!("there is no instruction form '{name}'"))?;
        let mut s = Sass::new(form);
        if let Some(g) = guard {
            let (inv, g) = g.strip_prefix('!').map_or((false, g), |x| (true, x));
            s.guard = Operand::reg(self.reg(g)?);
            s.guard.inv = inv;
        }
        for m in parts {
            let (key, value) = m.split_once('=').ok_or_else(|| format!("modifier '{m}' has no value"))?;
            let n = form.get().mods.iter().position(|x| format!("{:?}", x.name) == key);
            s.mods[n.ok_or_else(|| format!("{name} has no modifier '{key}'"))?] = number(value)? as u8;
        }
        for w in words {
            let (key, value) = w.split_once('=').ok_or_else(|| format!("operand '{w}' has no value"))?;
            let n = form.get().slots.iter().position(|x| format!("{:?}", x.name) == key);
            let n = n.ok_or_else(|| format!("{name} has no operand '{key}'"))?;
            s.operands[n] = self.operand(value, form.get().slots[n].kind)?;
        }
        Ok(s)
    }

    fn operand(&mut self, s: &str, kind: SlotKind) -> Res<Operand> {
        let mut o = Operand::imm(0);
        if let SlotKind::Imm { .. } = kind {
            o.value = Value::imm(number(s)?);
            return Ok(o);
        }
        let mut s = s;
        for flag in ['-', '~', '!', '|'] {
            if let Some(rest) = s.strip_prefix(flag) {
                s = rest;
                match flag {
                    '-' => o.neg = true,
                    '|' => {
                        o.abs = true;
                        s = s.strip_suffix('|').unwrap_or(s);
                    }
                    _ => o.inv = true,
                }
            }
        }
        o.value = if let Some(body) = s.strip_prefix("c[") {
            let (bank, offset) = body.split_once("][").ok_or("a constant is c[bank][offset]")?;
            let offset = offset.strip_suffix(']').ok_or("a constant is c[bank][offset]")?;
            Value::Const { bank: number(bank)? as u8, offset: number(offset)? as i32 }
        } else if s.starts_with("blk") {
            Value::target(block_number(s)? as i64)
        } else if s.starts_with('{') {
            let values = self.values(inner(s, '{', '}')?)?;
            if values.is_empty() {
                return Err("an empty vector".into());
            }
            Value::Reg(self.f.vector(&values))
        } else {
            Value::Reg(self.reg(s)?)
        };
        Ok(o)
    }
}
