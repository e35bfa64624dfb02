//! Textures and surfaces.

use super::memory::atom_fn;
use super::*;
use crate::texture::{Beyond, Query};

/// What a geometry word says: dimensions, layers, cube, samples.
const GEOMETRIES: [(&str, Geometry); 9] = {
    const fn g(dims: usize, layers: bool, cube: bool, samples: bool) -> Geometry {
        Geometry { dims, layers, cube, samples }
    }
    [
        ("1d", g(1, false, false, false)),
        ("2d", g(2, false, false, false)),
        ("3d", g(3, false, false, false)),
        ("a1d", g(1, true, false, false)),
        ("a2d", g(2, true, false, false)),
        ("cube", g(3, false, true, false)),
        ("acube", g(3, true, true, false)),
        ("2dms", g(2, false, false, true)),
        ("a2dms", g(2, true, false, true)),
    ]
};

impl Decoder<'_> {
    fn geometry(inst: &Inst) -> Result<Geometry> {
        let found = inst.mods.iter().find_map(|m| GEOMETRIES.iter().find(|g| g.0 == m.name()));
        found.map(|g| g.1).ok_or_else(|| "no geometry".to_string())
    }

    /// The handle of a texture, surface or sampler reference.
    pub(super) fn handle(&mut self, var: ptx::module::VarId) -> Result<Slot> {
        match (self.handles)(var) {
            Some(h) => Ok(self.constant(h)),
            None => gap(format!("the launch binds nothing to '{}'", self.m.vars[var.index()].name)),
        }
    }

    /// `[object, sampler?, coordinates]`
    fn texel_address(&mut self, inst: &Inst, t: T) -> Result<TexelAddress> {
        let at = inst.operands.iter().find_map(|o| match o {
            Operand::TexMem(parts) => Some(parts),
            _ => None,
        });
        let parts = at.ok_or("an address is missing")?.as_slice();
        let (object, sampler, coordinates) = match parts {
            [o, c] => (o, None, c),
            [o, s, c] => (o, Some(s), c),
            _ => return gap("this kind of address"),
        };
        let geometry = Self::geometry(inst)?;
        let object = self.src(object, T::U64)?;
        let sampler = sampler.map(|s| self.src(s, T::U64)).transpose()?;
        // Layers and samples are integers in front of the coordinates.
        let integers = geometry.layers as usize + geometry.samples as usize;
        let list = self.elements(coordinates);
        if list.len() < integers + geometry.dims {
            return gap("coordinates are missing");
        }
        let mut c = SmallVec::new();
        for (i, o) in list.iter().take(integers + geometry.dims).enumerate() {
            c.push(self.src(o, if i < integers { T::U32 } else { t })?);
        }
        Ok(TexelAddress { geometry, object, sampler, coordinates: c })
    }

    /// `tex`, `tld4`
    pub(super) fn tex(&mut self, inst: &Inst) -> Result<Exec> {
        let types = inst.types();
        let [dt, ct] = types.as_slice() else { return gap("these types") };
        let (d, p) = match inst.operands.first().ok_or("")? {
            Operand::Pair(pair) => (self.elements(&pair.0), self.pdst(&pair.1)?),
            one => (self.elements(one), None),
        };
        let d = d.iter().map(|o| self.dst(o)).collect::<Result<_>>()?;
        let at = self.texel_address(inst, *ct)?;
        let dims = at.geometry.dims;
        let mut rest = inst.operands.iter().skip_while(|o| !matches!(o, Operand::TexMem(_))).skip(1).peekable();
        let vector = |d: &mut Self, o: &Operand, t: T| -> Result<SmallVec<[Slot; 4]>> {
            d.elements(o).iter().take(dims).map(|o| d.src(o, t)).collect()
        };
        let mut lod = LodFrom::Base;
        if inst.has(Mod::Level) {
            lod = LodFrom::Level(self.src(rest.next().ok_or("a level is missing")?, *ct)?, *ct == T::F32);
        } else if inst.has(Mod::Grad) {
            let (x, y) = (rest.next().ok_or("")?, rest.next().ok_or("")?);
            lod = LodFrom::Grad(vector(self, x, T::F32)?, vector(self, y, T::F32)?);
        }
        let mut offset = SmallVec::new();
        if let Some(o) = rest.peek()
            && (matches!(o, Operand::Vector(_) | Operand::Int(_)) || dims == 1 && !self.is_float(o))
        {
            offset = vector(self, rest.next().ok_or("")?, T::S32)?;
        }
        let compare = rest.next().map(|o| self.src(o, T::F32)).transpose()?;
        let component = [Mod::R, Mod::G, Mod::B, Mod::A].iter().position(|&m| inst.has(m));
        let gather = (inst.op == Op::Tld4).then_some(component.unwrap_or(0));
        let whole = *ct != T::F32;
        Ok(Exec::Texture(Box::new(TextureOp { at, d, p, ty: *dt, whole, lod, offset, compare, gather })))
    }

    fn is_float(&self, o: &Operand) -> bool {
        match o {
            Operand::Reg { reg, .. } => self.m.funcs[self.func.index()].regs[reg.index()].ty == T::F32,
            _ => true,
        }
    }

    /// `suld`, `sust`, `sured`
    pub(super) fn surface(&mut self, inst: &Inst) -> Result<Exec> {
        let at = self.texel_address(inst, T::S32)?;
        let t = inst.ty();
        let size = element(t)?;
        let beyond = match () {
            () if inst.has(Mod::Clamp) => Beyond::Clamp,
            () if inst.has(Mod::Zero) => Beyond::Zero,
            () => Beyond::Trap,
        };
        let formatted = inst.has(Mod::P);
        let what = match inst.op {
            Op::Suld => {
                let list = self.elements(inst.operands.first().ok_or("")?);
                SurfaceMove::Load(list.iter().map(|o| self.dst(o)).collect::<Result<_>>()?)
            }
            op => {
                let list = self.elements(inst.operands.last().ok_or("")?);
                let s = list.iter().map(|o| self.src(o, t)).collect::<Result<_>>()?;
                if op == Op::Sust {
                    SurfaceMove::Store(s)
                } else {
                    let op = inst.mods.iter().find_map(|&m| AtomOp::from_mod(m)).ok_or("no operation")?;
                    let signed = match t {
                        T::B32 => T::S32,
                        T::B64 => T::S64,
                        t => t,
                    };
                    let unsigned = match t {
                        T::B32 => T::U32,
                        T::B64 => T::U64,
                        t => t,
                    };
                    SurfaceMove::Reduce(s, [atom_fn(op, unsigned)?.0, atom_fn(op, signed)?.0])
                }
            }
        };
        Ok(Exec::Surface(Box::new(SurfaceOp { at, size, beyond, formatted, what })))
    }

    /// `txq`, `suq`
    pub(super) fn texture_query(&mut self, inst: &Inst) -> Result<Exec> {
        let table = [
            (Mod::Width, Query::Width),
            (Mod::Height, Query::Height),
            (Mod::Depth, Query::Depth),
            (Mod::ChannelDataType, Query::ChannelType),
            (Mod::ChannelOrder, Query::ChannelOrder),
            (Mod::NormalizedCoords, Query::Normalized),
            (Mod::ForceUnnormalizedCoords, Query::ForceUnnormalized),
            (Mod::ArraySize, Query::ArraySize),
            (Mod::NumMipmapLevels, Query::Levels),
            (Mod::NumSamples, Query::Samples),
            (Mod::FilterMode, Query::Filter),
            (Mod::AddrMode0, Query::Edge(0)),
            (Mod::AddrMode1, Query::Edge(1)),
            (Mod::AddrMode2, Query::Edge(2)),
            (Mod::MemoryLayout, Query::MemoryLayout),
        ];
        let query = table.iter().find(|q| inst.has(q.0)).ok_or("this query")?.1;
        let d = self.dst(inst.operands.first().ok_or("")?)?;
        let object = match inst.operands.get(1).ok_or("an operand is missing")? {
            Operand::Mem(a) if a.offset() == 0 => match a.base() {
                AddressBase::Reg(r) if self.is_value(r, None) => self.reg(r, None),
                AddressBase::Var(v) => self.handle(v)?,
                _ => return gap("this kind of address"),
            },
            Operand::TexMem(parts) if parts.len() == 1 => self.src(&parts[0], T::U64)?,
            _ => return gap("this kind of address"),
        };
        let level = match inst.operands.get(2) {
            Some(l) => self.src(l, T::U32)?,
            None => self.constant(0),
        };
        Ok(Exec::TextureQuery { d, object, level, query })
    }
}
