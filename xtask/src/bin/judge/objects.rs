//! Arrays of texels, textures, surfaces, references and tensor maps of a launch, made by the driver.
//!
//! The structures and numbers are those of CUDA's header `cuda.h`; a test compares their layout with it.

use crate::cuda::{Address, Code, Context, Handle, Kernel, functions};
use crate::possible;
use sim::Launch;
use sim::tensormap::{Interleave, Swizzle, TensorMap, Type};
use sim::texture::{Array, Edge, Format, Object, Sampler};
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

functions! {
    /// The functions that arrays and what names them take.
    Table:
    array "cuArray3DCreate_v2" (*mut Handle, *const ArrayDescriptor);
    levels "cuMipmappedArrayCreate" (*mut Handle, *const ArrayDescriptor, c_uint);
    level "cuMipmappedArrayGetLevel" (*mut Handle, Handle, c_uint);
    copy "cuMemcpy3D_v2" (*const Copy);
    texture "cuTexObjectCreate" (*mut u64, *const Resource, *const Texture, *const c_void);
    surface "cuSurfObjectCreate" (*mut u64, *const Resource);
}

functions! {
    /// The functions that references of a module take; a driver may have dropped them.
    References:
    texture "cuModuleGetTexRef" (*mut Handle, Handle, *const c_char);
    surface "cuModuleGetSurfRef" (*mut Handle, Handle, *const c_char);
    array "cuTexRefSetArray" (Handle, Handle, c_uint);
    levels "cuTexRefSetMipmappedArray" (Handle, Handle, c_uint);
    edge "cuTexRefSetAddressMode" (Handle, c_int, c_uint);
    filter "cuTexRefSetFilterMode" (Handle, c_uint);
    flags "cuTexRefSetFlags" (Handle, c_uint);
    border "cuTexRefSetBorderColor" (Handle, *mut f32);
    stored "cuSurfRefSetArray" (Handle, Handle, c_uint);
}

functions! {
    /// The functions that make tensor maps.
    Maps:
    tiled "cuTensorMapEncodeTiled" (
        *mut Map, c_uint, u32, *mut c_void, *const u64, *const u64, *const u32, *const u32, c_uint, c_uint, c_uint, c_uint);
    im2col "cuTensorMapEncodeIm2col" (
        *mut Map, c_uint, u32, *mut c_void, *const u64, *const u64, *const c_int, *const c_int, u32, u32, *const u32,
        c_uint, c_uint, c_uint, c_uint);
}

/// `CUDA_ARRAY3D_DESCRIPTOR`
#[repr(C)]
pub(crate) struct ArrayDescriptor {
    width: usize,
    height: usize,
    depth: usize,
    format: c_uint,
    channels: c_uint,
    flags: c_uint,
}

/// One side of `CUDA_MEMCPY3D`.
#[repr(C)]
pub(crate) struct Side {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    /// 1: memory of this machine, 3: an array.
    kind: c_uint,
    host: *mut c_void,
    device: Address,
    array: Handle,
    reserved: *mut c_void,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`
#[repr(C)]
pub(crate) struct Copy {
    from: Side,
    to: Side,
    width: usize,
    height: usize,
    depth: usize,
}

/// `CUDA_RESOURCE_DESC`: kind 0 is an array, 1 one with levels.
#[repr(C)]
pub(crate) struct Resource {
    kind: c_uint,
    array: Handle,
    rest: [c_int; 30],
    flags: c_uint,
}

/// `CUDA_TEXTURE_DESC`
#[repr(C)]
#[derive(Default)]
pub(crate) struct Texture {
    edge: [c_uint; 3],
    filter: c_uint,
    flags: c_uint,
    anisotropy: c_uint,
    filter_levels: c_uint,
    bias: f32,
    levels: [f32; 2],
    border: [f32; 4],
    reserved: [c_int; 12],
}

/// `CUtensorMap`
#[repr(C, align(64))]
pub(crate) struct Map([u64; 16]);

/// `CUarray_format` of a component, and whether it reads as an integer.
fn format(f: Format) -> (c_uint, bool) {
    let number = match f {
        Format::Unorm8 | Format::U8 => 1,
        Format::Unorm16 | Format::U16 => 2,
        Format::U32 => 3,
        Format::Snorm8 | Format::S8 => 8,
        Format::Snorm16 | Format::S16 => 9,
        Format::S32 => 10,
        Format::F16 => 0x10,
        Format::F32 => 0x20,
    };
    (number, f.is_integer())
}

/// `CUaddress_mode`
fn edge(e: Edge) -> c_uint {
    match e {
        Edge::Wrap => 0,
        Edge::Clamp | Edge::ClampOgl => 1,
        Edge::Mirror => 2,
        Edge::Border => 3,
    }
}

/// `CU_TRSF_*`: as integers, normalised coordinates.
fn flags(array: &Array, s: &Sampler) -> c_uint {
    format(array.format).1 as c_uint | (s.normalized as c_uint) << 1
}

/// An array that the driver has made: its handle, and that of each level.
struct Made<'a> {
    array: &'a Array,
    whole: Handle,
    levels: Vec<Handle>,
}

/// The arrays of a launch, and the tables of functions.
pub struct Objects<'a> {
    context: &'a Context<'a>,
    table: Option<Table>,
    made: Vec<Made<'a>>,
}

impl<'a> Objects<'a> {
    /// Makes the arrays of a launch, without their texels, and binds its references.
    ///
    /// # Errors
    /// What the driver cannot do.
    pub fn new(context: &'a Context<'a>, kernel: &Kernel<'_>, launch: &'a Launch) -> Result<Objects<'a>, String> {
        possible::possible(launch)?;
        let mut all = Objects { context, table: None, made: Vec::new() };
        if launch.arrays.is_empty() {
            return Ok(all);
        }
        let table = Table::load(context.driver().library())?;
        for array in &launch.arrays {
            all.made.push(make(context, &table, array)?);
        }
        all.table = Some(table);
        if !launch.binds.is_empty() {
            let references = References::load(context.driver().library())?;
            for (name, object) in &launch.binds {
                all.bind(&references, kernel.module, name, object)?;
            }
        }
        Ok(all)
    }

    fn table(&self) -> Result<&Table, String> {
        self.table.as_ref().ok_or_else(|| "an object without an array".into())
    }

    fn find(&self, n: usize) -> Result<&Made<'a>, String> {
        self.made.get(n).ok_or_else(|| "an object names an array that there is not".into())
    }

    /// The handle of an object.
    ///
    /// # Errors
    /// What the driver says.
    pub fn handle(&self, object: &Object) -> Result<u64, String> {
        let (driver, mut handle) = (self.context.driver(), 0);
        match object {
            Object::Texture(n, s) => {
                let made = self.find(*n)?;
                let (resource, texture) = (made.resource(), described(made.array, s));
                // SAFETY: both descriptions live until the call returns.
                driver.check("cuTexObjectCreate", unsafe {
                    (self.table()?.texture)(&mut handle, &resource, &texture, null())
                })?;
            }
            Object::Surface(n) => {
                let mut resource = self.find(*n)?.resource();
                // A surface is one level.
                (resource.kind, resource.array) = (0, self.find(*n)?.levels[0]);
                // SAFETY: as above.
                driver.check("cuSurfObjectCreate", unsafe { (self.table()?.surface)(&mut handle, &resource) })?;
            }
            Object::Sampler(_) => return Err("the driver makes no samplers apart from textures".into()),
        }
        Ok(handle)
    }

    fn bind(&self, r: &References, module: Handle, name: &str, object: &Object) -> Result<(), String> {
        let driver = self.context.driver();
        let text = CString::new(name).map_err(|e| e.to_string())?;
        let mut reference = null_mut();
        // SAFETY: the name ends with a zero, every handle is the driver's, and the colour is copied.
        unsafe {
            match object {
                Object::Texture(n, s) => {
                    let made = self.find(*n)?;
                    driver.check("cuModuleGetTexRef", (r.texture)(&mut reference, module, text.as_ptr()))?;
                    // 1: the format is that of the array.
                    match made.array.levels {
                        1 => driver.check("cuTexRefSetArray", (r.array)(reference, made.whole, 1))?,
                        _ => driver.check("cuTexRefSetMipmappedArray", (r.levels)(reference, made.whole, 1))?,
                    }
                    for (dim, e) in s.edge.iter().enumerate() {
                        driver.check("cuTexRefSetAddressMode", (r.edge)(reference, dim as c_int, edge(*e)))?;
                    }
                    let mut border = s.border;
                    driver.check("cuTexRefSetBorderColor", (r.border)(reference, border.as_mut_ptr()))?;
                    driver.check("cuTexRefSetFilterMode", (r.filter)(reference, s.linear as c_uint))?;
                    driver.check("cuTexRefSetFlags", (r.flags)(reference, flags(made.array, s)))
                }
                Object::Surface(n) => {
                    driver.check("cuModuleGetSurfRef", (r.surface)(&mut reference, module, text.as_ptr()))?;
                    driver.check("cuSurfRefSetArray", (r.stored)(reference, self.find(*n)?.levels[0], 0))
                }
                Object::Sampler(_) => Err("the driver makes no samplers apart from textures".into()),
            }
        }
    }

    /// Puts the texels of the launch file into the arrays.
    ///
    /// # Errors
    /// What the driver says.
    pub fn upload(&self) -> Result<(), String> {
        for made in &self.made {
            let mut data = made.array.data.clone();
            self.copy(made, &mut data, true)?;
        }
        Ok(())
    }

    /// The texels of each array, laid out as in a launch file.
    ///
    /// # Errors
    /// What the driver says.
    pub fn download(&self) -> Result<Vec<Vec<u8>>, String> {
        let one = |made: &Made<'a>| {
            let mut data = vec![0; made.array.data.len()];
            self.copy(made, &mut data, false).map(|()| data)
        };
        self.made.iter().map(one).collect()
    }

    fn copy(&self, made: &Made<'a>, data: &mut [u8], there: bool) -> Result<(), String> {
        let mut at = 0;
        for (n, &level) in made.levels.iter().enumerate() {
            let [w, h, d] = made.array.level(n as u32).map(|s| s.max(1) as usize);
            let (width, bytes) = (w * made.array.texel() as usize, made.array.level_bytes(n as u32) as usize);
            let piece = data.get_mut(at..at + bytes).ok_or("texels are missing")?;
            let side = |kind, host, array| Side {
                x: 0,
                y: 0,
                z: 0,
                level: 0,
                kind,
                host,
                device: 0,
                array,
                reserved: null_mut(),
                pitch: if kind == 1 { width } else { 0 },
                height: if kind == 1 { h } else { 0 },
            };
            let (here, array) = (side(1, piece.as_mut_ptr().cast(), null_mut()), side(3, null_mut(), level));
            let (from, to) = if there { (here, array) } else { (array, here) };
            let copy = Copy { from, to, width, height: h, depth: d * made.array.slices() as usize };
            // SAFETY: the piece has as many bytes as the level, without gaps.
            self.context.driver().check("cuMemcpy3D", unsafe { (self.table()?.copy)(&copy) })?;
            at += bytes;
        }
        Ok(())
    }
}

impl Made<'_> {
    fn resource(&self) -> Resource {
        Resource { kind: (self.array.levels > 1) as c_uint, array: self.whole, rest: [0; 30], flags: 0 }
    }
}

/// Bits of `CUDA_ARRAY3D_*`.
const LAYERED: c_uint = 1;
const SURFACE: c_uint = 2;
const CUBE: c_uint = 4;
const GATHER: c_uint = 8;

fn make<'a>(context: &Context<'_>, table: &Table, array: &'a Array) -> Result<Made<'a>, String> {
    let [width, height, depth] = array.size.map(|s| s as usize);
    let flat = height > 0 && depth == 0 && array.layers.is_none() && !array.cube;
    let mut flags = SURFACE;
    for (bit, set) in [(LAYERED, array.layers.is_some()), (CUBE, array.cube), (GATHER, flat && array.levels == 1)] {
        flags |= if set { bit } else { 0 };
    }
    let depth = if array.layers.is_some() || array.cube { array.slices() as usize } else { depth };
    let descriptor =
        ArrayDescriptor { width, height, depth, format: format(array.format).0, channels: array.channels, flags };
    let driver = context.driver();
    let (mut whole, mut levels) = (null_mut(), Vec::new());
    // SAFETY: the descriptor lives until the calls return; handles go with the context.
    unsafe {
        if array.levels == 1 {
            driver.check("cuArray3DCreate", (table.array)(&mut whole, &descriptor))?;
            levels.push(whole);
        } else {
            driver.check("cuMipmappedArrayCreate", (table.levels)(&mut whole, &descriptor, array.levels))?;
            for n in 0..array.levels {
                let mut level = null_mut();
                driver.check("cuMipmappedArrayGetLevel", (table.level)(&mut level, whole, n))?;
                levels.push(level);
            }
        }
    }
    Ok(Made { array, whole, levels })
}

fn described(array: &Array, s: &Sampler) -> Texture {
    Texture {
        edge: s.edge.map(edge),
        filter: s.linear as c_uint,
        flags: flags(array, s),
        filter_levels: s.linear_levels as c_uint,
        bias: s.bias,
        levels: s.levels.unwrap_or([0.0, array.levels as f32 - 1.0]),
        border: s.border,
        ..Texture::default()
    }
}

/// The 128 bytes of a tensor map over the memory at `address`.
///
/// # Errors
/// What the driver says.
pub fn map(context: &Context<'_>, m: &TensorMap, address: Address) -> Result<Vec<u8>, String> {
    let maps = Maps::load(context.driver().library())?;
    let mut out = Map([0; 16]);
    // In the header's order, which is not that of PTX.
    let ty = match m.ty {
        Type::U8 => 0,
        Type::U16 => 1,
        Type::U32 => 2,
        Type::S32 => 3,
        Type::U64 => 4,
        Type::S64 => 5,
        Type::F16 => 6,
        Type::F32 => 7,
        Type::F64 => 8,
        Type::BF16 => 9,
        Type::F32Ftz => 10,
        Type::TF32 => 11,
        Type::TF32Ftz => 12,
    };
    let interleave = match m.interleave {
        Interleave::None => 0,
        Interleave::Slices16 => 1,
        Interleave::Slices32 => 2,
    };
    let swizzle = match m.swizzle {
        Swizzle::None => 0,
        Swizzle::B32 => 1,
        Swizzle::B64 => 2,
        Swizzle::B128 => 3,
    };
    let at = (address + m.address) as usize as *mut c_void;
    let (rank, fill) = (m.rank as u32, m.nan as c_uint);
    // SAFETY: dimensions, strides and steps are as many as the rank says; the map is aligned as the driver wants it.
    let code = unsafe {
        match &m.im2col {
            None => (maps.tiled)(
                &mut out,
                ty,
                rank,
                at,
                m.dims.as_ptr(),
                m.strides.as_ptr(),
                m.box_dims.as_ptr(),
                m.steps.as_ptr(),
                interleave,
                swizzle,
                0,
                fill,
            ),
            Some(c) => {
                // The header's text lists the corners outermost first, but public code that runs gives the innermost first.
                (maps.im2col)(
                    &mut out,
                    ty,
                    rank,
                    at,
                    m.dims.as_ptr(),
                    m.strides.as_ptr(),
                    c.lower.as_ptr(),
                    c.upper.as_ptr(),
                    c.channels,
                    c.pixels,
                    m.steps.as_ptr(),
                    interleave,
                    swizzle,
                    0,
                    fill,
                )
            }
        }
    };
    context.driver().check("cuTensorMapEncode", code)?;
    Ok(out.0.iter().flat_map(|w| w.to_le_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use std::process::Command;

    /// nvcc refuses the header's structures if they differ from ours.
    #[test]
    fn the_structures_are_the_headers() {
        let Some(nvcc) = testkit::oracle::ptxas().map(|p| p.with_file_name("nvcc")) else { return };
        let mut text = String::from("#include <cuda.h>\n#include <cstddef>\n");
        for (name, size) in [
            ("CUDA_ARRAY3D_DESCRIPTOR", size_of::<ArrayDescriptor>()),
            ("CUDA_MEMCPY3D", size_of::<Copy>()),
            ("CUDA_RESOURCE_DESC", size_of::<Resource>()),
            ("CUDA_TEXTURE_DESC", size_of::<Texture>()),
            ("CUtensorMap", size_of::<Map>()),
        ] {
            text += &format!("static_assert(sizeof({name}) == {size}, \"{name}\");\n");
        }
        for (name, field, at) in [
            ("CUDA_ARRAY3D_DESCRIPTOR", "Format", offset_of!(ArrayDescriptor, format)),
            ("CUDA_ARRAY3D_DESCRIPTOR", "Flags", offset_of!(ArrayDescriptor, flags)),
            ("CUDA_MEMCPY3D", "srcMemoryType", offset_of!(Side, kind)),
            ("CUDA_MEMCPY3D", "srcHost", offset_of!(Side, host)),
            ("CUDA_MEMCPY3D", "srcArray", offset_of!(Side, array)),
            ("CUDA_MEMCPY3D", "srcPitch", offset_of!(Side, pitch)),
            ("CUDA_MEMCPY3D", "dstXInBytes", offset_of!(Copy, to)),
            ("CUDA_MEMCPY3D", "dstArray", offset_of!(Copy, to) + offset_of!(Side, array)),
            ("CUDA_MEMCPY3D", "WidthInBytes", offset_of!(Copy, width)),
            ("CUDA_MEMCPY3D", "Depth", offset_of!(Copy, depth)),
            ("CUDA_RESOURCE_DESC", "res.array.hArray", offset_of!(Resource, array)),
            ("CUDA_RESOURCE_DESC", "res.mipmap.hMipmappedArray", offset_of!(Resource, array)),
            ("CUDA_RESOURCE_DESC", "flags", offset_of!(Resource, flags)),
            ("CUDA_TEXTURE_DESC", "filterMode", offset_of!(Texture, filter)),
            ("CUDA_TEXTURE_DESC", "flags", offset_of!(Texture, flags)),
            ("CUDA_TEXTURE_DESC", "mipmapFilterMode", offset_of!(Texture, filter_levels)),
            ("CUDA_TEXTURE_DESC", "mipmapLevelBias", offset_of!(Texture, bias)),
            ("CUDA_TEXTURE_DESC", "minMipmapLevelClamp", offset_of!(Texture, levels)),
            ("CUDA_TEXTURE_DESC", "borderColor", offset_of!(Texture, border)),
        ] {
            text += &format!("static_assert(offsetof({name}, {field}) == {at}, \"{name} {field}\");\n");
        }
        for (name, number) in [
            ("CU_AD_FORMAT_UNSIGNED_INT16", format(Format::Unorm16).0),
            ("CU_AD_FORMAT_SIGNED_INT8", format(Format::S8).0),
            ("CU_AD_FORMAT_SIGNED_INT32", format(Format::S32).0),
            ("CU_AD_FORMAT_HALF", format(Format::F16).0),
            ("CU_AD_FORMAT_FLOAT", format(Format::F32).0),
            ("CU_TR_ADDRESS_MODE_WRAP", edge(Edge::Wrap)),
            ("CU_TR_ADDRESS_MODE_CLAMP", edge(Edge::Clamp)),
            ("CU_TR_ADDRESS_MODE_MIRROR", edge(Edge::Mirror)),
            ("CU_TR_ADDRESS_MODE_BORDER", edge(Edge::Border)),
            ("CU_TR_FILTER_MODE_LINEAR", 1),
            ("CU_TRSF_READ_AS_INTEGER", 1),
            ("CU_TRSF_NORMALIZED_COORDINATES", 2),
            ("CU_TRSA_OVERRIDE_FORMAT", 1),
            ("CUDA_ARRAY3D_LAYERED", LAYERED),
            ("CUDA_ARRAY3D_SURFACE_LDST", SURFACE),
            ("CUDA_ARRAY3D_CUBEMAP", CUBE),
            ("CUDA_ARRAY3D_TEXTURE_GATHER", GATHER),
            ("CU_RESOURCE_TYPE_ARRAY", 0),
            ("CU_RESOURCE_TYPE_MIPMAPPED_ARRAY", 1),
            ("CU_MEMORYTYPE_HOST", 1),
            ("CU_MEMORYTYPE_ARRAY", 3),
        ] {
            text += &format!("static_assert((unsigned){name} == {number}u, \"{name}\");\n");
        }
        let dir = testkit::Scratch::new("judge-objects");
        let file = dir.join("layout.cu");
        std::fs::write(&file, text).expect("written");
        let done = Command::new(nvcc).arg("-ptx").arg(&file).arg("-o").arg(dir.join("layout.ptx")).output();
        let done = done.expect("nvcc runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}
