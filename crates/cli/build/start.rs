//! The start of a program with the GNU C library in it, without asking the processor what it is.
//!
//! The library's own start (`__libc_start_main` of `libc.a`) executes `cpuid` about fifty times, to choose among its variants
//! of `memcpy` and to set their thresholds by the sizes of the caches. In a virtual machine each is a trap, 6 µs: a third of
//! compiling a small kernel. This one does what that one does, in its order, and leaves that out. The library then knows of
//! no features, and takes the variants that every x86-64 processor has, which are as fast for what compilers copy.
//!
//! It uses what the library's parts offer one another, which may differ with each of its versions. So `build.rs` makes an
//! archive of this file, links a probe (`probe.rs`) with it, runs that, and gives it to the programs only where the
//! library's version is one that was looked at and the probe saw nothing amiss. The archive stands
//! before the library, whose own start is then left out.
//!
//! Left out as well is what these programs do not use: that the thread of `main` may end alone (`pthread_exit`), where the program's
//! file lies (asked for libraries that a program loads), and the system's functions in the process's memory, whose names are
//! looked up at start for a quicker clock. What the environment says about the library's own parameters is read only where a variable has
//! such a name: comparing each variable with all names was two thirds of the instructions of the start.

#![no_std]
#![allow(non_upper_case_globals)]

use core::ffi::{c_char, c_int, c_void};

type Words = *const *const c_char;
type Start = extern "C" fn(c_int, Words, Words);
type End = extern "C" fn();

/// A relocation whose value a function computes: which variant of a function is taken.
#[repr(C)]
struct Relocation {
    place: *mut usize,
    kind: usize,
    value: extern "C" fn() -> usize,
}

// What the linker defines: the ends of tables.
unsafe extern "C" {
    static __rela_iplt_start: [Relocation; 0];
    static __rela_iplt_end: [Relocation; 0];
    static __preinit_array_start: [Start; 0];
    static __preinit_array_end: [Start; 0];
    static __init_array_start: [Start; 0];
    static __init_array_end: [Start; 0];
    static __fini_array_start: [End; 0];
    static __fini_array_end: [End; 0];
    /// Where the file lies, which begins with tables and goes on with code, and where the code ends.
    static __ehdr_start: [u8; 0];
    static etext: [u8; 0];
    fn _init();
    fn _fini();
}

// What the library's other parts have.
unsafe extern "C" {
    static mut __environ: Words;
    static mut __libc_stack_end: *const c_void;
    /// Sixteen bytes that the system has thrown for this process.
    static _dl_random: *const usize;
    static __libc_enable_secure: c_int;
    static mut _dl_sysinfo_dso: *const c_void;
    fn _dl_aux_init(vector: *const c_void);
    fn __tunables_init(environment: Words);
    fn _dl_relocate_static_pie();
    fn __libc_setup_tls();
    fn __libc_early_init(first: bool);
    fn __libc_init_first(count: c_int, words: Words, environment: Words);
    fn __libc_check_standard_fds();
    fn _dl_debug_initialize(base: usize, space: isize) -> *const c_void;
    fn __sbrk(more: isize) -> *mut c_void;
    fn __cxa_atexit(call: extern "C" fn(*mut c_void), with: *mut c_void, of: *mut c_void) -> c_int;
    fn exit(code: c_int) -> !;
}

/// Bytes of a cache of the first level, by which few functions divide their work.
const NEAR: usize = 32 << 10;
/// Bytes that a thread may hope to find in a shared cache.
const SHARED: usize = 1 << 20;
/// Bytes from which copies go past the caches. With 0.75 MiB, the library's own value for unknown processors, copies of 1 to
/// 4 MiB took twice as long (an EPYC, 2026-11-25), and those of 64 MiB no less.
const PAST: usize = 8 << 20;
/// Bytes from which a processor's own instruction for copying would be used, were it known to be fast.
const LONG: usize = 2 << 10;

// What the library's start defines for its memory functions.
#[unsafe(no_mangle)]
static __x86_data_cache_size: usize = NEAR;
#[unsafe(no_mangle)]
static __x86_data_cache_size_half: usize = NEAR / 2;
#[unsafe(no_mangle)]
static __x86_shared_cache_size: usize = SHARED;
#[unsafe(no_mangle)]
static __x86_shared_cache_size_half: usize = SHARED / 2;
#[unsafe(no_mangle)]
static __x86_shared_non_temporal_threshold: usize = PAST;
#[unsafe(no_mangle)]
static __x86_rep_movsb_threshold: usize = LONG;
#[unsafe(no_mangle)]
static __x86_rep_movsb_stop_threshold: usize = PAST;
#[unsafe(no_mangle)]
static __x86_rep_stosb_threshold: usize = LONG;
#[unsafe(no_mangle)]
static __x86_string_control: c_int = 0;

/// What `_start` calls, with what the system left on the stack.
///
/// # Safety
/// It is called once, first of all. Until the relocations are done it may call no function that has variants, and until there is
/// thread-local storage none that uses it.
#[unsafe(no_mangle)]
unsafe extern "C" fn __libc_start_main(
    main: extern "C" fn(c_int, Words, Words) -> c_int,
    count: c_int,
    words: Words,
    _init_of_old: *const c_void,
    _fini_of_old: *const c_void,
    end_of_loader: Option<extern "C" fn(*mut c_void)>,
    stack: *const c_void,
) -> ! {
    // SAFETY: this is the order in which the library calls its parts. After the words and the environment, each of which a null
    // ends, the system left the auxiliary vector.
    unsafe {
        in_large_pages();
        __environ = words.add(count as usize + 1);
        __libc_stack_end = stack;
        let mut vector = __environ;
        while !(*vector).is_null() {
            vector = vector.add(1);
        }
        _dl_aux_init(vector.add(1).cast());
        _dl_sysinfo_dso = core::ptr::null();
        if __libc_enable_secure != 0 || tuned(__environ) {
            __tunables_init(__environ);
        }
        _dl_relocate_static_pie();
        each(&raw const __rela_iplt_start, &raw const __rela_iplt_end, |relocation| {
            (*relocation).place.write(((*relocation).value)());
        });
        __libc_setup_tls();
        // What functions with arrays look at before they return: its first byte ends a text. What pointers are hidden with.
        let (guard, secret) = (*_dl_random & !0xff, *_dl_random.add(1));
        core::arch::asm!("mov fs:[0x28], {}", "mov fs:[0x30], {}", in(reg) guard, in(reg) secret, options(nostack));
        if let Some(call) = end_of_loader {
            __cxa_atexit(call, core::ptr::null_mut(), core::ptr::null_mut());
        }
        __libc_early_init(true);
        __libc_init_first(count, words, __environ);
        __cxa_atexit(sassafras_finish, core::ptr::null_mut(), core::ptr::null_mut());
        if __libc_enable_secure != 0 {
            __libc_check_standard_fds();
        }
        let call = |start: *const Start| (*start)(count, words, __environ);
        each(&raw const __preinit_array_start, &raw const __preinit_array_end, call);
        _init();
        each(&raw const __init_array_start, &raw const __init_array_end, call);
        _dl_debug_initialize(0, 0);
        exit(main(count, words, __environ))
    }
}

/// Says that the program's file is better read in large pages: where it is in the system's memory no more, the system reads it again
/// in pages of 4 KiB, of which each page fault maps sixteen one by one, and a small kernel took half as long again; of a file system that has
/// large pages it takes whole ones then. Where it cannot, or the file is there, nothing happens. The tables are asked for first: with them
/// comes what lies behind, the code that runs most.
///
/// # Safety
/// The program lies where the linker says.
unsafe fn in_large_pages() {
    const MADVISE: usize = 28;
    const HUGE_PAGE: usize = 14;
    let (start, end) = ((&raw const __ehdr_start).addr(), (&raw const etext).addr());
    // SAFETY: this is the system's call, which changes no memory.
    unsafe {
        core::arch::asm!(
            "syscall", inlateout("rax") MADVISE => _, in("rdi") start, in("rsi") end - start, in("rdx") HUGE_PAGE,
            lateout("rcx") _, lateout("r11") _, options(nostack),
        );
        (&raw const __x86_shared_non_temporal_threshold).read_volatile();
    }
}

/// Memory for what threads have for themselves, of the first thread. The library's function moves the end of the heap for it, which is two calls
/// of the system, and one more to let the heap begin with a page again. Other data that a start writes lies beside this. The environment may ask
/// for more of it (`glibc.rtld.optional_static_tls`); then it is as with the library.
#[unsafe(no_mangle)]
extern "C" fn _dl_early_allocate(bytes: usize) -> *mut c_void {
    /// Bytes enough for this library's own (3,648 with what the programs have).
    const ENOUGH: usize = 4096;
    #[repr(C, align(64))]
    struct Block(core::cell::UnsafeCell<[u8; ENOUGH]>);
    // SAFETY: no thread is there but the first, and it asks once.
    unsafe impl Sync for Block {}
    static BLOCK: Block = Block(core::cell::UnsafeCell::new([0; ENOUGH]));
    if bytes <= ENOUGH {
        return BLOCK.0.get().cast();
    }
    // SAFETY: this is the library's call; what it fails with is all ones.
    let old = unsafe { __sbrk(bytes as isize) };
    if old.addr() == usize::MAX { core::ptr::null_mut() } else { old }
}

/// Where the program's file lies: that is not known.
#[unsafe(no_mangle)]
extern "C" fn _dl_get_origin() -> *const c_char {
    core::ptr::without_provenance(usize::MAX)
}

/// True if the environment may set parameters of the library: by `GLIBC_TUNABLES`, or by names that begin with `MALLOC_`.
///
/// # Safety
/// It is one: addresses of texts that zeros end, then null.
unsafe fn tuned(mut environment: Words) -> bool {
    // SAFETY: no text is read beyond its zero, which is no letter of a name.
    let begins = |text: *const c_char, name: &[u8]| unsafe {
        let mut n = 0;
        while n < name.len() && *text.add(n) as u8 == *name.as_ptr().add(n) {
            n += 1;
        }
        n == name.len()
    };
    // SAFETY: as promised.
    unsafe {
        while !(*environment).is_null() {
            if begins(*environment, b"GLIBC_TUNABLES=") || begins(*environment, b"MALLOC_") {
                return true;
            }
            environment = environment.add(1);
        }
    }
    false
}

/// The destructors of the program, last first. By its name a program that starts here is known.
#[unsafe(no_mangle)]
extern "C" fn sassafras_finish(_: *mut c_void) {
    // SAFETY: the table is the linker's; `_fini` is called once, here.
    unsafe {
        let start = (&raw const __fini_array_start).cast::<End>();
        let mut at = (&raw const __fini_array_end).cast::<End>();
        while at > start {
            at = at.sub(1);
            (*at)();
        }
        _fini();
    }
}

/// Calls for each entry of a table between two addresses.
///
/// # Safety
/// The table lies there.
#[inline(always)]
unsafe fn each<T>(start: *const [T; 0], end: *const [T; 0], call: impl Fn(*const T)) {
    let mut at = start.cast::<T>();
    while at < end.cast() {
        call(at);
        // SAFETY: the end is behind this entry.
        at = unsafe { at.add(1) };
    }
}
