//! Warp-wide instructions: who waits for whom, and what they compute.

use super::*;

impl Warp {
    /// Completes every warp-wide instruction for which all lanes have come.
    pub(super) fn meet(&mut self, env: &mut Env<'_>) -> Res<()> {
        let mut todo = self.waiting & self.alive;
        while todo != 0 {
            let lane = todo.trailing_zeros() as usize;
            let Wait::Lanes { key, mask } = self.wait[lane] else {
                todo &= !(1 << lane);
                continue;
            };
            let mut same = 0;
            each(todo, |i| same |= ((self.wait[i] == Wait::Lanes { key, mask }) as u32) << i);
            todo &= !same;
            let wanted = mask & self.alive;
            if same & wanted == wanted {
                self.complete(env, same)?;
                env.shadow.meet(self.id(env), same, self.alive);
                each(same, |i| {
                    self.wait[i] = Wait::None;
                    self.pc[i] += 1;
                });
                self.waiting &= !same;
            }
        }
        Ok(())
    }

    /// A value of one lane, with whether it was written.
    fn lane_value(&self, env: &Env<'_>, slot: Slot, lane: usize) -> (u64, bool) {
        let depth = self.depth[lane] as usize;
        (self.values(env.p, depth, slot)[lane], self.written(depth, slot) >> lane & 1 != 0)
    }

    fn lane_need(&self, env: &Env<'_>, slot: Slot, lane: usize) -> Res<u64> {
        let (v, written) = self.lane_value(env, slot, lane);
        if env.check_init && !written { Err(unwritten(1 << lane, self.pc[lane])) } else { Ok(v) }
    }

    /// Computes a warp-wide instruction for the lanes that met.
    pub(super) fn complete(&mut self, env: &mut Env<'_>, m: u32) -> Res<()> {
        let p = env.p;
        let op = |w: &Warp, i: usize| match &p.code[w.pc[i] as usize].exec {
            Exec::Collective { op, .. } => op,
            _ => unreachable!("a lane that waits for lanes stands at a warp-wide instruction"),
        };
        let mut value = [0u64; 32];
        let mut written = 0u32;
        let mut brought = 0u32;
        for i in lanes(m) {
            match op(self, i) {
                Collective::Shfl { a, .. } => {
                    let (v, w) = self.lane_value(env, *a, i);
                    value[i] = v;
                    written |= (w as u32) << i;
                }
                Collective::Match { a, .. } | Collective::Redux { a, .. } => value[i] = self.lane_need(env, *a, i)?,
                Collective::Vote { a, .. } => {
                    let depth = self.depth[i] as usize;
                    self.need_pred(env, depth, *a, 1 << i, self.pc[i])?;
                    brought |= self.pred(depth, *a) & 1 << i;
                }
                Collective::Sync
                | Collective::Elect { .. }
                | Collective::Matrix { .. }
                | Collective::Mma(_)
                | Collective::Fragment(_)
                | Collective::Wgmma(_)
                | Collective::MapCopy { .. }
                | Collective::MovMatrix { .. } => {}
            }
        }
        let first = m.trailing_zeros() as usize;
        if let Collective::Matrix { load, trans, space, addr, r } = op(self, first) {
            return self.matrix(env, first, (*load, *trans, *space, addr), r);
        }
        match op(self, first) {
            Collective::Mma(x) => return self.mma(env, first, x),
            Collective::Fragment(x) => return self.fragment(env, first, x),
            Collective::Wgmma(x) => return self.wgmma(env, first, x),
            Collective::MapCopy { to, from } => return self.map_copy(env, first, to, from),
            Collective::MovMatrix { d, a } => return self.movmatrix(env, first, *d, *a),
            _ => {}
        }
        for i in lanes(m) {
            let depth = self.depth[i] as usize;
            let bit = 1u32 << i;
            match op(self, i) {
                Collective::Sync => {}
                Collective::Shfl { d, p, mode, b, c, .. } => {
                    let (b, c) = (self.lane_need(env, *b, i)? as u32, self.lane_need(env, *c, i)? as u32);
                    let (j, ok) = source_lane(*mode, i as u32, b, c);
                    let valid = (m & written) >> j & 1 != 0;
                    let out = [value[j as usize]; 32];
                    self.put_partly(depth, *d, bit, if valid { bit } else { 0 }, &out);
                    self.put_pred(depth, *p, bit, if ok { bit } else { 0 });
                }
                Collective::Vote { kind, d, p, .. } => {
                    let r = match kind {
                        Vote::All => brought == m,
                        Vote::Any => brought != 0,
                        Vote::Uni => brought == m || brought == 0,
                        Vote::Ballot => false,
                    };
                    self.put(depth, *d, bit, &[brought as u64; 32]);
                    self.put_pred(depth, *p, bit, if r { bit } else { 0 });
                }
                Collective::Match { all, d, p, .. } => {
                    let mut same = 0u32;
                    each(m, |j| same |= ((value[j] == value[i]) as u32) << j);
                    let r = if *all { if same == m { m } else { 0 } } else { same };
                    self.put(depth, *d, bit, &[r as u64; 32]);
                    self.put_pred(depth, *p, bit, if same == m { bit } else { 0 });
                }
                Collective::Redux { d, f, .. } => {
                    let mut all = lanes(m).map(|j| value[j] as u32);
                    let first = all.next().unwrap_or(0);
                    let r = all.fold(first, f);
                    self.put(depth, *d, bit, &[r as u64; 32]);
                }
                Collective::Elect { d, p } => {
                    let leader = m.trailing_zeros();
                    self.put(depth, *d, bit, &[leader as u64; 32]);
                    self.put_pred(depth, *p, bit, 1 << leader);
                }
                Collective::Matrix { .. }
                | Collective::Mma(_)
                | Collective::Fragment(_)
                | Collective::Wgmma(_)
                | Collective::MapCopy { .. }
                | Collective::MovMatrix { .. } => {}
            }
        }
        Ok(())
    }

    /// Depth and place of an instruction that all 32 lanes must execute together.
    pub(super) fn together(&self, first: usize) -> Res<(usize, u32)> {
        let (depth, pc) = (self.depth[first] as usize, self.pc[first]);
        if self.pc.iter().any(|&p| p != pc) || self.alive != u32::MAX {
            let message = "not all threads of the warp execute the instruction together";
            return Err(stop(FaultKind::BarrierMisuse, message, first, pc));
        }
        Ok((depth, pc))
    }

    fn mma(&mut self, env: &Env<'_>, first: usize, x: &MmaOp) -> Res<()> {
        let (depth, pc) = self.together(first)?;
        let read = |w: &Warp, slots: &[Slot]| -> Res<Vec<Lanes>> {
            w.need(env, depth, slots, u32::MAX, pc)?;
            Ok(slots.iter().map(|&s| *w.values(env.p, depth, s)).collect())
        };
        let (a, b, c) = (read(self, &x.a)?, read(self, &x.b)?, read(self, &x.c)?);
        let meta = match x.meta {
            Slot::NONE => None,
            s => Some(read(self, &[s])?[0]),
        };
        let d = x.mma.compute(&a, &b, &c, meta.as_ref()).map_err(|(i, m)| stop(FaultKind::BarrierMisuse, m, i, pc))?;
        for (slot, out) in x.d.iter().zip(d) {
            self.put(depth, *slot, u32::MAX, &out);
        }
        Ok(())
    }

    /// `wmma.load`, `wmma.store`
    fn fragment(&mut self, env: &mut Env<'_>, first: usize, x: &FragmentOp) -> Res<()> {
        let (depth, pc) = self.together(first)?;
        let at = self.address(env, depth, pc, &x.addr, u32::MAX)?;
        let f = &x.fragment;
        let tight = if f.by_columns { f.rows } else { f.columns } as u64;
        let strides = match x.stride {
            Slot::NONE => [tight; 32],
            s => {
                self.need(env, depth, &[s], u32::MAX, pc)?;
                *self.values(env.p, depth, s)
            }
        };
        if !x.load {
            self.need(env, depth, &x.r, u32::MAX, pc)?;
        }
        let mut out = vec![[0u64; 32]; x.r.len()];
        for lane in 0..32 {
            let fault = |e| memory(e, lane, pc);
            let (space, start) = resolve(x.space, at[lane]);
            for i in 0..f.each() {
                let bit = f.offset(lane as u32, i, strides[lane]);
                let (r, shift) = f.place(i);
                let a = start.wrapping_add(bit / 8);
                let size = (f.bits / 8).max(1);
                let how = At { depth, lane, pc, align: size, strong: false };
                if x.load {
                    let v = self.load_lane(env, (space, a), size, how).map_err(fault)?;
                    out[r][lane] |= (v >> (bit % 8) & bits_mask(f.bits)) << shift;
                } else {
                    let v = self.values(env.p, depth, x.r[r])[lane] >> shift;
                    self.store_lane(env, (space, a), size, how, v & bits_mask(f.bits)).map_err(fault)?;
                }
            }
        }
        if x.load {
            // Registers beyond the matrix repeat it.
            let held = f.place(f.each().max(1) - 1).0 + 1;
            for (n, &slot) in x.r.iter().enumerate() {
                self.put(depth, slot, u32::MAX, &out[n % held]);
            }
        }
        Ok(())
    }

    /// Transposes the 8x8 matrix of 16-bit elements that lies in the lanes as `ldmatrix` leaves it.
    fn movmatrix(&mut self, env: &Env<'_>, first: usize, d: Slot, a: Slot) -> Res<()> {
        let (depth, pc) = self.together(first)?;
        self.need(env, depth, &[a], u32::MAX, pc)?;
        let from = *self.values(env.p, depth, a);
        let element = |row: usize, column: usize| from[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
        let out = std::array::from_fn(|i| {
            let (row, column) = (i / 4, 2 * (i % 4));
            element(column, row) | element(column + 1, row) << 16
        });
        self.put(depth, d, u32::MAX, &out);
        Ok(())
    }

    /// `ldmatrix`, `stmatrix`: lane `8 j + i` gives the address of row i of matrix j; register j of a lane holds two
    /// elements of row `lane / 4` (of column `lane / 4` where transposed).
    fn matrix(
        &mut self,
        env: &mut Env<'_>,
        first: usize,
        (load, trans, space, addr): (bool, bool, Space, &Addr),
        r: &[Slot],
    ) -> Res<()> {
        let (depth, pc) = self.together(first)?;
        let rows = u32::MAX >> (32 - 8 * r.len());
        let at = self.address(env, depth, pc, addr, rows)?;
        if !load {
            self.need(env, depth, r, u32::MAX, pc)?;
        }
        for (j, &slot) in r.iter().enumerate() {
            let mut regs = if load { [0; 32] } else { *self.values(env.p, depth, slot) };
            for lane in 0..32 {
                for half in 0..2 {
                    let (a, b) = (lane / 4, 2 * (lane % 4) + half);
                    let (row, column) = if trans { (b, a) } else { (a, b) };
                    let from = 8 * j + row;
                    let fault = |e| memory(e, from, pc);
                    let how = At { depth, lane: from, pc, align: 2, strong: false };
                    let (sp, start) = resolve(space, at[from]);
                    check_aligned(start, 16, "shared").map_err(fault)?;
                    let place = start + 2 * column as u64;
                    if load {
                        regs[lane] |= self.load_lane(env, (sp, place), 2, how).map_err(fault)? << (16 * half);
                    } else {
                        let value = regs[lane] >> (16 * half);
                        self.store_lane(env, (sp, place), 2, how, value).map_err(fault)?;
                    }
                }
            }
            if load {
                self.put(depth, slot, u32::MAX, &regs);
            }
        }
        Ok(())
    }
}

/// The lane that a shuffle reads, and whether it is in range (else it is the lane itself).
fn source_lane(mode: Shuffle, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let b = b & 0x1f;
    let segment = c >> 8 & 0x1f;
    let clamp = c & 0x1f;
    let max = (lane & segment) | (clamp & !segment);
    let min = lane & segment;
    let (j, ok) = match mode {
        Shuffle::Up => (lane.wrapping_sub(b) as i32, lane as i32 - b as i32 >= max as i32),
        Shuffle::Down => ((lane + b) as i32, lane + b <= max),
        Shuffle::Bfly => ((lane ^ b) as i32, lane ^ b <= max),
        Shuffle::Idx => {
            let j = min | (b & !segment);
            (j as i32, j <= max)
        }
    };
    (if ok { j as u32 } else { lane }, ok)
}
