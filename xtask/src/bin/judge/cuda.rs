//! The driver's library, opened at run time: as much of its interface as loading, launching and timing take.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

/// A result code of the driver.
pub(crate) type Code = c_int;
/// What the driver made, opaque.
pub(crate) type Handle = *mut c_void;
/// An address in the device's memory.
pub(crate) type Address = u64;

/// `CUlaunchConfig`
#[repr(C)]
pub(crate) struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: Handle,
    attributes: *const LaunchAttribute,
    count: c_uint,
}

/// `CUlaunchAttribute`: number 4 is the size of a cluster.
#[repr(C)]
pub(crate) struct LaunchAttribute {
    id: c_int,
    pad: [u8; 4],
    value: [u64; 8],
}

/// Makes a table of the driver's functions, each with the name of its symbol and its arguments.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident: $($field:ident $symbol:literal ($($arg:ty),*);)*) => {
        $(#[$doc])*
        pub(crate) struct $table { $(pub(crate) $field: unsafe extern "C" fn($($arg),*) -> Code),* }

        impl $table {
            /// Looks every function up in the driver's library, which is open.
            pub(crate) fn load(library: *mut std::ffi::c_void) -> Result<$table, String> {
                Ok($table { $($field: {
                    let name = concat!($symbol, "\0");
                    // SAFETY: the library is open and the name ends with a zero.
                    let at = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
                    if at.is_null() {
                        return Err(format!("the driver's library lacks {}", $symbol));
                    }
                    // SAFETY: the symbol is a function of this signature in every release of the driver.
                    unsafe {
                        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($arg),*) -> Code>(at)
                    }
                }),* })
            }
        }
    };
}
pub(crate) use functions;

functions! {
    /// The functions that every launch takes.
    Table:
    init "cuInit" (c_uint);
    version "cuDriverGetVersion" (*mut c_int);
    count "cuDeviceGetCount" (*mut c_int);
    device "cuDeviceGet" (*mut c_int, c_int);
    name "cuDeviceGetName" (*mut c_char, c_int, c_int);
    attribute "cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    retain "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    release "cuDevicePrimaryCtxRelease_v2" (c_int);
    current "cuCtxSetCurrent" (Handle);
    synchronize "cuCtxSynchronize" ();
    load "cuModuleLoadData" (*mut Handle, *const c_void);
    function "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    get "cuFuncGetAttribute" (*mut c_int, c_int, Handle);
    set "cuFuncSetAttribute" (Handle, c_int, c_int);
    alloc "cuMemAlloc_v2" (*mut Address, usize);
    upload "cuMemcpyHtoD_v2" (Address, *const c_void, usize);
    download "cuMemcpyDtoH_v2" (*mut c_void, Address, usize);
    launch "cuLaunchKernelEx" (*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
    event "cuEventCreate" (*mut Handle, c_uint);
    record "cuEventRecord" (Handle, Handle);
    wait "cuEventSynchronize" (Handle);
    elapsed "cuEventElapsedTime" (*mut f32, Handle, Handle);
    error_name "cuGetErrorName" (Code, *mut *const c_char);
}

/// The driver.
pub struct Driver {
    table: Table,
    library: Handle,
}

/// A device in use: its context lives as long as this.
pub struct Context<'a> {
    driver: &'a Driver,
    device: c_int,
}

/// A kernel that is loaded.
pub struct Kernel<'a> {
    context: &'a Context<'a>,
    function: Handle,
    /// The module that it is in.
    pub(crate) module: Handle,
}

/// What the driver says about a kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: i32,
    /// Static shared memory in bytes.
    pub shared: i32,
    /// Local memory of a thread in bytes.
    pub local: i32,
}

/// Why there is nothing to run on.
pub enum Missing {
    /// No driver or no device: this machine has no GPU that can be used.
    Gpu(String),
    /// Something else.
    Other(String),
}

impl Driver {
    /// Opens the driver's library and starts it.
    pub fn open() -> Result<Driver, Missing> {
        let mut library = null_mut();
        for name in [c"libcuda.so.1", c"libcuda.so"] {
            // SAFETY: the name ends with a zero; the library's initialisers are the driver's.
            library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
            if !library.is_null() {
                break;
            }
        }
        if library.is_null() {
            return Err(Missing::Gpu("no NVIDIA driver: libcuda.so.1 cannot be opened".into()));
        }
        let driver = Driver { table: Table::load(library).map_err(Missing::Other)?, library };
        // SAFETY: as the driver's documentation wants it, first of all.
        let code = unsafe { (driver.table.init)(0) };
        // 34, 100: no driver for it, no device; 999 is what an absent device gives in a container.
        match code {
            0 => {}
            34 | 100 | 803 | 804 | 999 => {
                return Err(Missing::Gpu(format!("no GPU that can be used: {}", driver.error(code))));
            }
            _ => return Err(Missing::Other(driver.error(code))),
        }
        let mut count = 0;
        driver.check("cuDeviceGetCount", unsafe { (driver.table.count)(&mut count) }).map_err(Missing::Other)?;
        if count == 0 {
            return Err(Missing::Gpu("the driver knows no GPU".into()));
        }
        Ok(driver)
    }

    fn error(&self, code: Code) -> String {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: gives a static string, or null for a code that it does not know.
        unsafe { (self.table.error_name)(code, &mut name) };
        match name.is_null() {
            true => format!("error {code}"),
            // SAFETY: not null, ends with a zero.
            false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
        }
    }

    /// The library, for further tables of functions.
    pub(crate) fn library(&self) -> Handle {
        self.library
    }

    /// Names the function that failed and the driver's error.
    pub(crate) fn check(&self, what: &str, code: Code) -> Result<(), String> {
        if code == 0 { Ok(()) } else { Err(format!("{what}: {}", self.error(code))) }
    }

    /// The driver's version as `13.0`.
    pub fn version(&self) -> String {
        let mut n = 0;
        // SAFETY: writes one integer.
        unsafe { (self.table.version)(&mut n) };
        format!("{}.{}", n / 1000, n % 1000 / 10)
    }

    /// Name and SM number (90) of a device.
    pub fn describe(&self, ordinal: i32) -> Result<(String, i32), String> {
        let (mut device, mut name, mut parts) = (0, [0 as c_char; 256], [0; 2]);
        // SAFETY: every pointer is to a place of the size that is given.
        unsafe {
            self.check("cuDeviceGet", (self.table.device)(&mut device, ordinal))?;
            self.check("cuDeviceGetName", (self.table.name)(name.as_mut_ptr(), 255, device))?;
            // 75, 76: major and minor compute capability.
            for (part, number) in parts.iter_mut().zip([75, 76]) {
                self.check("cuDeviceGetAttribute", (self.table.attribute)(part, number, device))?;
            }
            Ok((CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned(), 10 * parts[0] + parts[1]))
        }
    }

    /// A new context.
    pub fn context(&self, ordinal: i32) -> Result<Context<'_>, String> {
        let (mut device, mut handle) = (0, null_mut());
        // SAFETY: as above.
        unsafe {
            self.check("cuDeviceGet", (self.table.device)(&mut device, ordinal))?;
            self.check("cuDevicePrimaryCtxRetain", (self.table.retain)(&mut handle, device))?;
            let context = Context { driver: self, device };
            self.check("cuCtxSetCurrent", (self.table.current)(handle))?;
            Ok(context)
        }
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: retained once, released once; with it goes everything that was made in it.
        unsafe { (self.driver.table.release)(self.device) };
    }
}

impl<'a> Context<'a> {
    /// The driver.
    pub(crate) fn driver(&self) -> &'a Driver {
        self.driver
    }

    /// Loads a cubin and finds a kernel in it.
    pub fn load(&'a self, cubin: &[u8], kernel: &str) -> Result<Kernel<'a>, String> {
        let name = CString::new(kernel).map_err(|e| e.to_string())?;
        let (mut module, mut function) = (null_mut(), null_mut());
        let t = &self.driver.table;
        // SAFETY: the cubin tells its own length; the name ends with a zero.
        unsafe {
            self.driver.check("cuModuleLoadData", (t.load)(&mut module, cubin.as_ptr().cast()))?;
            self.driver.check("cuModuleGetFunction", (t.function)(&mut function, module, name.as_ptr()))?;
        }
        Ok(Kernel { context: self, function, module })
    }

    /// Memory of the device; at least one byte, so that it has an address.
    pub fn alloc(&self, bytes: usize) -> Result<Address, String> {
        let mut at = 0;
        // SAFETY: writes one address.
        self.driver.check("cuMemAlloc", unsafe { (self.driver.table.alloc)(&mut at, bytes.max(1)) })?;
        Ok(at)
    }

    /// Copies to the device.
    pub fn upload(&self, to: Address, data: &[u8]) -> Result<(), String> {
        if data.is_empty() {
            return Ok(());
        }
        // SAFETY: reads `data.len()` bytes.
        self.driver.check("cuMemcpyHtoD", unsafe { (self.driver.table.upload)(to, data.as_ptr().cast(), data.len()) })
    }

    /// Copies from the device.
    pub fn download(&self, data: &mut [u8], from: Address) -> Result<(), String> {
        if data.is_empty() {
            return Ok(());
        }
        // SAFETY: writes `data.len()` bytes.
        self.driver
            .check("cuMemcpyDtoH", unsafe { (self.driver.table.download)(data.as_mut_ptr().cast(), from, data.len()) })
    }

    /// Waits for everything that was launched.
    pub fn synchronize(&self) -> Result<(), String> {
        // SAFETY: no arguments.
        self.driver.check("kernel", unsafe { (self.driver.table.synchronize)() })
    }
}

impl Kernel<'_> {
    /// What the driver read from the cubin.
    pub fn resources(&self) -> Result<Resources, String> {
        let get = |number| {
            let mut n = 0;
            let driver = self.context.driver;
            // SAFETY: writes one integer.
            driver.check("cuFuncGetAttribute", unsafe { (driver.table.get)(&mut n, number, self.function) })?;
            Ok::<i32, String>(n)
        };
        Ok(Resources { shared: get(1)?, local: get(3)?, registers: get(4)? })
    }

    /// Permits so many bytes of dynamic shared memory, and clusters of more than eight CTAs.
    pub fn allow(&self, shared: u32, large_cluster: bool) -> Result<(), String> {
        let driver = self.context.driver;
        let set = |number, value| {
            // SAFETY: plain integers.
            driver.check("cuFuncSetAttribute", unsafe { (driver.table.set)(self.function, number, value) })
        };
        if shared > 0 {
            set(8, shared as c_int)?;
        }
        if large_cluster {
            set(14, 1)?;
        }
        Ok(())
    }

    /// Launches, without waiting.
    pub fn launch(&self, l: &sim::Launch, args: &mut [Vec<u8>]) -> Result<(), String> {
        let mut pointers: Vec<*mut c_void> = args.iter_mut().map(|a| a.as_mut_ptr().cast()).collect();
        let cluster = l.cluster.unwrap_or([1; 3]);
        let mut value = [0; 8];
        value[0] = cluster[0] as u64 | (cluster[1] as u64) << 32;
        value[1] = cluster[2] as u64;
        let attribute = LaunchAttribute { id: 4, pad: [0; 4], value };
        let config = LaunchConfig {
            grid: l.grid,
            block: l.block,
            shared: l.shared,
            stream: null_mut(),
            attributes: &attribute,
            count: l.cluster.is_some() as c_uint,
        };
        let driver = self.context.driver;
        // SAFETY: the driver reads as many arguments as the kernel has, which the caller gives in their sizes.
        driver.check("cuLaunchKernelEx", unsafe {
            (driver.table.launch)(&config, self.function, pointers.as_mut_ptr(), null_mut())
        })
    }

    /// Microseconds that a launch takes, by events around it.
    pub fn time(&self, l: &sim::Launch, args: &mut [Vec<u8>]) -> Result<f32, String> {
        let driver = self.context.driver;
        let (mut events, mut ms) = ([null_mut(); 2], 0f32);
        // SAFETY: events are made, recorded and read in this order; they go with the context.
        unsafe {
            for e in &mut events {
                driver.check("cuEventCreate", (driver.table.event)(e, 0))?;
            }
            driver.check("cuEventRecord", (driver.table.record)(events[0], null_mut()))?;
            self.launch(l, args)?;
            driver.check("cuEventRecord", (driver.table.record)(events[1], null_mut()))?;
            driver.check("cuEventSynchronize", (driver.table.wait)(events[1]))?;
            driver.check("cuEventElapsedTime", (driver.table.elapsed)(&mut ms, events[0], events[1]))?;
        }
        Ok(1000.0 * ms)
    }
}
