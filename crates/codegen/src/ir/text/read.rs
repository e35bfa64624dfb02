//! Reads the text form, each byte once: kernels need routines of ours that stand in it (`expand/builtins.rs`).

use super::{cmp_from, fmt_from, rnd_from, scope_from, sem_from, space_from, ty_from};
use crate::ir::{Attr, Block, BlockData, Def, Edge, Func, Inst, InstId, Mem, Op, Term, Ty, Value, ValueData};
use smallvec::{Array, SmallVec};

/// Reads functions from text; an error names the line (from 1) and what is wrong there.
pub fn parse(text: &str) -> Result<Vec<Func>, String> {
    let mut funcs = Vec::new();
    let mut current: Option<Parser> = None;
    for (n, line) in text.lines().enumerate() {
        let mut line = Line { rest: line };
        if line.ended() {
            continue;
        }
        let at = |e: String| format!("line {}: {e}", n + 1);
        if line.eat(b'}') {
            funcs.push(current.take().ok_or_else(|| at("no function is open".into()))?.finish().map_err(at)?);
            continue;
        }
        match line.word() {
            "func" => current = Some(Parser::header(line.rest).map_err(at)?),
            word => {
                let parser = current.as_mut().ok_or_else(|| at("outside a function".into()))?;
                parser.line(word, &mut line).and_then(|()| line.end()).map_err(at)?;
            }
        }
    }
    if current.is_some() { Err("the last function is not closed".into()) } else { Ok(funcs) }
}

/// What is left of a line.
struct Line<'a> {
    rest: &'a str,
}

impl<'a> Line<'a> {
    /// Leaves spaces behind; is nothing left but a comment?
    fn ended(&mut self) -> bool {
        let spaces = self.rest.bytes().take_while(u8::is_ascii_whitespace).count();
        self.rest = &self.rest[spaces..];
        matches!(self.rest.as_bytes().first(), None | Some(b'#'))
    }

    /// Fails where something is left.
    fn end(&mut self) -> Result<(), String> {
        if self.ended() { Ok(()) } else { Err(format!("unexpected '{}'", self.rest)) }
    }

    /// Takes this byte (of ASCII), if it is the next one.
    fn eat(&mut self, byte: u8) -> bool {
        let is = !self.ended() && self.rest.as_bytes()[0] == byte;
        if is {
            self.rest = &self.rest[1..];
        }
        is
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.eat(byte) { Ok(()) } else { Err(format!("no '{}' before '{}'", byte as char, self.rest)) }
    }

    /// Takes letters, digits and what names and numbers have in them; may be nothing.
    fn word(&mut self) -> &'a str {
        if self.ended() {
            return "";
        }
        let of_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        let (word, rest) = self.rest.split_at(self.rest.bytes().take_while(|b| of_word(b)).count());
        self.rest = rest;
        word
    }
}

/// The number behind a word's first letters.
fn number(word: &str, letters: &str) -> Option<u32> {
    word.strip_prefix(letters)?.parse().ok()
}

fn block(word: &str) -> Result<Block, String> {
    number(word, "blk").map(Block).ok_or_else(|| format!("no block '{word}'"))
}

fn registers(list: &str) -> Result<Vec<u8>, String> {
    list.split(',').map(|n| n.parse().map_err(|_| format!("no register '{n}'"))).collect()
}

#[derive(Default)]
struct Parser {
    func: Func,
    defined: Vec<bool>,
}

impl Parser {
    fn header(text: &str) -> Result<Parser, String> {
        let mut p = Parser::default();
        let (head, tail) = text.split_once("returns(").ok_or("no returns(...)")?;
        let types = tail.split_once(')').ok_or("no ')'")?.0;
        for t in types.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            p.func.returns.push(ty_from(t).ok_or_else(|| format!("no type '{t}'"))?);
        }
        for (i, word) in head.split_whitespace().enumerate() {
            if i == 0 {
                p.func.name = word.into();
            } else if word == "entry" {
                p.func.entry = true;
            } else if let Some((size, align)) = word.strip_prefix("locals=").and_then(|w| w.split_once(':')) {
                p.func.local_size = size.parse().map_err(|_| "bad locals")?;
                p.func.local_align = align.parse().map_err(|_| "bad locals")?;
            } else if let Some(list) = word.strip_prefix("in=") {
                p.func.signature.args = registers(list)?;
            } else if let Some(list) = word.strip_prefix("out=") {
                p.func.signature.rets = registers(list)?;
            } else {
                return Err(format!("unexpected '{word}'"));
            }
        }
        Ok(p)
    }

    fn value(&mut self, word: &str) -> Result<Value, String> {
        let n = number(word, "v").ok_or_else(|| format!("no value '{word}'"))?;
        if n > 1 << 24 {
            return Err(format!("value number {n} is too large"));
        }
        while self.func.values.len() <= n as usize {
            self.func.new_value(Ty::B32, Def::Param(Block(u32::MAX), 0));
            self.defined.push(false);
        }
        Ok(Value(n))
    }

    /// A value and its type, of which the former was read.
    fn define(&mut self, word: &str, line: &mut Line, def: Def) -> Result<Value, String> {
        line.expect(b':').map_err(|_| format!("'{word}' has no type"))?;
        let ty = line.word();
        let ty = ty_from(ty).ok_or_else(|| format!("no type '{ty}'"))?;
        let v = self.value(word)?;
        if std::mem::replace(&mut self.defined[v.index()], true) {
            return Err(format!("v{} is defined twice", v.0));
        }
        self.func.values[v.index()] = ValueData { ty, def };
        Ok(v)
    }

    /// Values up to what is none.
    fn list<A: Array<Item = Value>>(&mut self, line: &mut Line) -> Result<SmallVec<A>, String> {
        let mut out = SmallVec::new();
        let mut word = line.word();
        while !word.is_empty() {
            out.push(self.value(word)?);
            word = if line.eat(b',') { line.word() } else { "" };
        }
        Ok(out)
    }

    fn edge(&mut self, line: &mut Line) -> Result<Edge, String> {
        let block = block(line.word())?;
        line.expect(b'(')?;
        let args = self.list::<[Value; 4]>(line)?.to_vec();
        line.expect(b')')?;
        Ok(Edge { block, args })
    }

    fn line(&mut self, word: &str, line: &mut Line) -> Result<(), String> {
        if word.starts_with("blk") {
            return self.head(word, line);
        }
        if self.func.blocks.is_empty() {
            return Err("no block is open".into());
        }
        let term = match word {
            "br" => Term::Br(self.edge(line)?),
            "brif" | "brif.uni" => {
                let cond = self.value(line.word())?;
                line.expect(b',')?;
                let then = self.edge(line)?;
                line.expect(b',')?;
                Term::CondBr { cond, uniform: word == "brif.uni", then, els: self.edge(line)? }
            }
            "switch" | "switch.uni" => {
                let index = self.value(line.word())?;
                let mut targets = Vec::new();
                while line.eat(b',') {
                    targets.push(block(line.word())?);
                }
                Term::Switch { index, uniform: word == "switch.uni", targets }
            }
            "exit" => Term::Exit,
            "ret" => Term::Ret(self.list::<[Value; 4]>(line)?.to_vec()),
            "unreachable" => Term::Unreachable,
            _ => return self.inst(word, line),
        };
        self.func.blocks.last_mut().expect("a block is open").term = term;
        Ok(())
    }

    /// The head of a block.
    fn head(&mut self, word: &str, line: &mut Line) -> Result<(), String> {
        let b = self.func.blocks.len();
        if block(word)?.index() != b {
            return Err(format!("blocks are numbered in order; this is blk{b}"));
        }
        self.func.blocks.push(BlockData::empty());
        line.expect(b'(')?;
        let mut word = line.word();
        while !word.is_empty() {
            let n = self.func.blocks[b].params.len() as u32;
            let v = self.define(word, line, Def::Param(Block(b as u32), n))?;
            self.func.blocks[b].params.push(v);
            word = if line.eat(b',') { line.word() } else { "" };
        }
        line.expect(b')')?;
        match line.word() {
            "" => {}
            "rolled" => self.func.blocks[b].rolled = true,
            word => return Err(format!("unexpected '{word}'")),
        }
        line.expect(b':')
    }

    fn inst(&mut self, first: &str, line: &mut Line) -> Result<(), String> {
        let id = InstId(self.func.insts.len() as u32);
        let (attr, mem) = (Attr::default(), Mem::default());
        let (mut name, mut results) = (first, SmallVec::new());
        // A line that does not begin with the operation begins with results.
        if Op::from_name(first).is_none() && (line.rest.starts_with([':', ',', '='])) {
            let mut word = first;
            loop {
                results.push(self.define(word, line, Def::Inst(id, results.len() as u8))?);
                if !line.eat(b',') {
                    break;
                }
                word = line.word();
            }
            line.expect(b'=')?;
            name = line.word();
        }
        let op = Op::from_name(name).ok_or_else(|| format!("no operation '{name}'"))?;
        let args = self.list(line)?;
        let mut inst = Inst { op, attr, mem, imm: 0, args, results, loc: u32::MAX };
        if line.eat(b'{') {
            while !line.eat(b'}') {
                let key = line.word();
                let value = if line.eat(b'=') { line.word() } else { "" };
                attribute(&mut inst, key, value).ok_or_else(|| match value {
                    "" => format!("no attribute '{key}'"),
                    _ => format!("no attribute '{key}={value}'"),
                })?;
            }
        }
        self.func.insts.push(inst);
        self.func.blocks.last_mut().expect("a block is open").insts.push(id);
        Ok(())
    }

    fn finish(self) -> Result<Func, String> {
        match self.defined.iter().position(|d| !d) {
            Some(v) => Err(format!("v{v} is not defined")),
            None => Ok(self.func),
        }
    }
}

fn attribute(inst: &mut Inst, key: &str, value: &str) -> Option<()> {
    let (a, m) = (&mut inst.attr, &mut inst.mem);
    match key {
        "fmt" => a.fmt = fmt_from(value)?,
        "fmt2" => a.fmt2 = fmt_from(value)?,
        "rnd" => a.rnd = rnd_from(value)?,
        "cmp" => a.cmp = cmp_from(value)?,
        "ftz" => a.ftz = true,
        "sat" => a.sat = true,
        "signed" => a.signed = true,
        "sub" => a.sub = value.parse().ok()?,
        "space" => m.space = space_from(value)?,
        "bytes" => m.bytes = value.parse().ok()?,
        "sem" => m.sem = sem_from(value)?,
        "scope" => m.scope = scope_from(value)?,
        "nc" => m.nc = true,
        "policy" => m.policy = true,
        "evict" => m.evict = value.parse().ok()?,
        "prefetch" => m.prefetch = value.parse().ok()?,
        "imm" => inst.imm = value.parse().ok()?,
        "loc" => inst.loc = value.parse().ok()?,
        _ => return None,
    }
    Some(())
}
