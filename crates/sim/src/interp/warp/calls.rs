//! Calls, returns, and functions that the system provides.

use super::memory::At;
use super::*;
use crate::interp::layout::OPEN_ROOM;

/// Bytes that malloc gives at most at once.
const HEAP: u64 = 1 << 28;
/// What its memory is called.
const MALLOC: &str = "malloc";

impl Warp {
    pub(super) fn call(
        &mut self,
        env: &mut Env<'_>,
        depth: usize,
        pc: u32,
        (callee, args, rets): (&Callee, PassedList<'_>, PassedList<'_>),
        m: u32,
    ) -> Res<()> {
        let p = env.p;
        let groups: Vec<(u32, u32)> = match callee {
            Callee::Direct(f) => vec![(*f, m)],
            Callee::System(s) => return self.system(env, depth, pc, (*s, args, rets), m),
            Callee::Indirect(s) => {
                self.need(env, depth, &[*s], m, pc)?;
                let target = *self.values(p, depth, *s);
                let mut groups: Vec<(u32, u32)> = Vec::new();
                for i in lanes(m) {
                    let n = target[i].wrapping_sub(FUNCTION);
                    if p.funcs.get(n as usize).is_none_or(|f| f.entry == u32::MAX) {
                        let message = format!("a call of {:#x}, which is no function", target[i]);
                        return Err(stop(FaultKind::OutOfBounds, message, i, pc));
                    }
                    match groups.iter_mut().find(|g| g.0 as u64 == n) {
                        Some(g) => g.1 |= 1 << i,
                        None => groups.push((n as u32, 1 << i)),
                    }
                }
                groups
            }
        };
        if depth + 1 >= MAX_DEPTH {
            let lane = m.trailing_zeros() as usize;
            return Err(stop(FaultKind::StackOverflow, format!("{MAX_DEPTH} nested calls"), lane, pc));
        }
        self.frame(p, depth + 1);
        for (func, m) in groups {
            let f = &p.funcs[func as usize];
            if f.params.len() != args.len() || f.returns.len() < rets.len() {
                let message = format!("{} arguments for '{}', which takes {}", args.len(), f.name, f.params.len());
                return Err(stop(FaultKind::Launch, message, m.trailing_zeros() as usize, pc));
            }
            for i in lanes(m) {
                // What the caller has allocated ends anywhere.
                let base = self.frames[depth].top[i].next_multiple_of(16);
                let top = base + f.frame;
                if top > LOCAL_SIZE {
                    let message = format!("the stack of the thread is larger than {LOCAL_SIZE} bytes");
                    return Err(stop(FaultKind::StackOverflow, message, i, pc));
                }
                if self.local[i].data.len() < top as usize {
                    self.local[i].data.resize(top as usize, 0);
                }
                for (&(from, size), &(to, room)) in args.iter().zip(&f.params) {
                    if size > room && room == OPEN_ROOM {
                        let message = format!("a list of {size} bytes for '{}', which has room for {room}", f.name);
                        return Err(stop(FaultKind::Launch, message, i, pc));
                    }
                    let size = size.min(room) as usize;
                    let to = (base + to) as usize;
                    match from {
                        Passed::Frame(off) => {
                            let at = (self.frames[depth].base[i] + off) as usize;
                            self.local[i].data.copy_within(at..at + size, to);
                        }
                        Passed::Slot(s) => {
                            self.need(env, depth, &[s], 1 << i, pc)?;
                            let v = self.values(p, depth, s)[i].to_le_bytes();
                            self.local[i].data[to..to + size.min(8)].copy_from_slice(&v[..size.min(8)]);
                        }
                        Passed::Pred(pred) => {
                            self.need_pred(env, depth, pred, 1 << i, pc)?;
                            self.local[i].data[to] = (self.pred(depth, pred) >> i & 1) as u8;
                        }
                        Passed::Slots { first, n, bytes } => {
                            for e in (0..u32::from(n)).take_while(|e| (e + 1) as usize * bytes as usize <= size) {
                                let slot = Slot(first.0 + e);
                                self.need(env, depth, &[slot], 1 << i, pc)?;
                                let v = self.values(p, depth, slot)[i].to_le_bytes();
                                let at = to + e as usize * bytes as usize;
                                self.local[i].data[at..at + bytes as usize].copy_from_slice(&v[..bytes as usize]);
                            }
                        }
                    }
                }
                let frame = &mut self.frames[depth + 1];
                (frame.base[i], frame.top[i], frame.site[i], frame.func[i]) = (base, top, pc, func);
                self.pc[i] = f.entry;
                self.depth[i] += 1;
            }
            let frame = &mut self.frames[depth + 1];
            frame.init.iter_mut().for_each(|x| *x &= !m);
            frame.pinit[1..].iter_mut().for_each(|x| *x &= !m);
        }
        Ok(())
    }

    pub(super) fn ret(&mut self, env: &Env<'_>, depth: usize, m: u32) {
        for i in lanes(m) {
            let frame = &self.frames[depth];
            let (site, base) = (frame.site[i], frame.base[i]);
            let f = &env.p.funcs[frame.func[i] as usize];
            if let Exec::Call { rets, .. } = &env.p.code[site as usize].exec {
                for (&(to, size), &(from, room)) in rets.iter().zip(&f.returns) {
                    let size = size.min(room) as usize;
                    let from = (base + from) as usize;
                    match to {
                        Passed::Frame(off) => {
                            let at = (self.frames[depth - 1].base[i] + off) as usize;
                            self.local[i].data.copy_within(from..from + size, at);
                        }
                        Passed::Slot(s) => {
                            let mut bytes = [0; 8];
                            bytes[..size.min(8)].copy_from_slice(&self.local[i].data[from..from + size.min(8)]);
                            self.put(depth - 1, s, 1 << i, &[u64::from_le_bytes(bytes); 32]);
                        }
                        Passed::Pred(pred) => {
                            let value = u32::from(self.local[i].data[from] != 0) << i;
                            self.put_pred(depth - 1, Some(pred.slot), 1 << i, value);
                        }
                        Passed::Slots { first, n, bytes } => {
                            for e in (0..u32::from(n)).take_while(|e| (e + 1) as usize * bytes as usize <= size) {
                                let at = from + e as usize * bytes as usize;
                                let mut value = [0; 8];
                                value[..bytes as usize].copy_from_slice(&self.local[i].data[at..at + bytes as usize]);
                                self.put(depth - 1, Slot(first.0 + e), 1 << i, &[u64::from_le_bytes(value); 32]);
                            }
                        }
                    }
                }
            }
            self.pc[i] = site + 1;
            self.depth[i] -= 1;
        }
    }

    /// The string at a generic address, without the zero behind it.
    fn text(&self, env: &mut Env<'_>, depth: usize, a: u64, lane: usize, pc: u32) -> Res<Vec<u8>> {
        let mut out = Vec::new();
        let how = At { depth, lane, pc, align: 1, strong: false };
        while out.len() < crate::printf::LONGEST {
            let place = resolve(Space::Generic, a.wrapping_add(out.len() as u64));
            match self.load_lane(env, place, 1, how).map_err(|e| memory(e, lane, pc))? {
                0 => break,
                c => out.push(c as u8),
            }
        }
        Ok(out)
    }

    /// A function that the system provides.
    fn system(
        &mut self,
        env: &mut Env<'_>,
        depth: usize,
        pc: u32,
        (system, args, rets): (System, PassedList<'_>, PassedList<'_>),
        m: u32,
    ) -> Res<()> {
        for i in lanes(m) {
            let value = |w: &Warp, n: usize| -> Res<u64> {
                match args.get(n) {
                    Some((Passed::Frame(off), size)) => {
                        let at = (w.frames[depth].base[i] + off) as usize;
                        let mut bytes = [0; 8];
                        let size = (*size as usize).min(8);
                        bytes[..size].copy_from_slice(&w.local[i].data[at..at + size]);
                        Ok(u64::from_le_bytes(bytes))
                    }
                    Some((Passed::Slot(s) | Passed::Slots { first: s, .. }, _)) => Ok(w.values(env.p, depth, *s)[i]),
                    Some((Passed::Pred(p), _)) => Ok(u64::from(w.pred(depth, *p) >> i & 1)),
                    None => Err(stop(FaultKind::Launch, "an argument of a system function is missing", i, pc)),
                }
            };
            let result = match system {
                System::Malloc => {
                    let size = value(self, 0)?;
                    if size > HEAP { 0 } else { env.global.alloc(vec![0; size as usize], 16, MALLOC) }
                }
                System::Free => {
                    let a = value(self, 0)?;
                    if a != 0 && !env.global.free(a, MALLOC) {
                        let message = format!("free of {a:#x}, where malloc has given nothing");
                        return Err(stop(FaultKind::OutOfBounds, message, i, pc));
                    }
                    0
                }
                System::AssertFail => {
                    let mut text = |a: u64| -> Res<String> {
                        let bytes = self.text(env, depth, a, i, pc)?;
                        Ok(String::from_utf8_lossy(&bytes).into_owned())
                    };
                    let (what, file, function) =
                        (text(value(self, 0)?)?, text(value(self, 1)?)?, text(value(self, 3)?)?);
                    let line = value(self, 2)? as u32;
                    let message = format!("{file}:{line}: {function}: assertion failed: {what}");
                    return Err(stop(FaultKind::Trap, message, i, pc));
                }
                System::Vprintf => {
                    let (format, mut next) = (value(self, 0)?, value(self, 1)?);
                    let format = self.text(env, depth, format, i, pc)?;
                    // Two readers of memory: each has it in turn.
                    let env = std::cell::RefCell::new(&mut *env);
                    let (w, how) = (&*self, At { depth, lane: i, pc, align: 4, strong: false });
                    let done = crate::printf::format(
                        &format,
                        &mut |size| {
                            let a = next.checked_next_multiple_of(size as u64).unwrap_or(u64::MAX);
                            next = a.wrapping_add(size as u64);
                            let place = resolve(Space::Generic, a);
                            w.load_lane(&mut env.borrow_mut(), place, size, how).map_err(|e| memory(e, i, pc))
                        },
                        &mut |a| w.text(&mut env.borrow_mut(), depth, a, i, pc),
                        &|m| stop(FaultKind::Unsupported, m, i, pc),
                    );
                    let (text, used) = done?;
                    env.into_inner().global.print(&text);
                    used as u64
                }
            };
            if let Some(&(to, size)) = rets.first() {
                match to {
                    Passed::Frame(off) => {
                        let at = (self.frames[depth].base[i] + off) as usize;
                        let size = (size as usize).min(8);
                        self.local[i].data[at..at + size].copy_from_slice(&result.to_le_bytes()[..size]);
                    }
                    Passed::Slot(s) | Passed::Slots { first: s, .. } => self.put(depth, s, 1 << i, &[result; 32]),
                    Passed::Pred(p) => self.put_pred(depth, Some(p.slot), 1 << i, u32::from(result != 0) << i),
                }
            }
        }
        Ok(())
    }
}
