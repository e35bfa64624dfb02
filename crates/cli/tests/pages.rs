//! The heap of a compilation lies in large pages where the system gives them.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::process::{Command, Stdio};
use testkit::Scratch;

/// Page faults of a program that ends well.
fn faults(command: &mut Command) -> i64 {
    let child = command.stdout(Stdio::null()).spawn().expect("it starts");
    let mut status = 0;
    // SAFETY: all bytes of the structure may be zero.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the child is ours, nobody else waits for it, and both places live as long as the call.
    let ended = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut used) };
    assert!(ended > 0 && status == 0, "{command:?} ends with {status:x}");
    used.ru_minflt
}

#[test]
fn a_large_text_takes_few_page_faults() {
    let given = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if !given.contains("[always]") && !given.contains("[madvise]") {
        println!("the system has no large pages to give");
        return;
    }
    let folder = Scratch::new("pages");
    let mut text = String::from(
        ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n\
         .reg .b32 %r<3000>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nld.global.u32 %r0, [%rd1];\n",
    );
    for n in 1..3000 {
        text += &format!("mad.lo.s32 %r{n}, %r{}, %r{}, {n};\n", n - 1, n / 2);
    }
    text += "st.global.u32 [%rd1], %r2999;\nret;\n}\n";
    let (input, output) = (folder.join("k.ptx"), folder.join("k.cubin"));
    std::fs::write(&input, text).unwrap();
    let mut ptxas = Command::new(env!("CARGO_BIN_EXE_ptxas"));
    let taken = faults(ptxas.args(["-arch=sm_90", "--Ofast-compile", "max"]).arg(input).arg("-o").arg(output));
    let nothing = faults(Command::new(env!("CARGO_BIN_EXE_ptxas")).arg("--version"));
    assert!(taken - nothing < 500, "{taken} page faults, {nothing} of them where nothing is compiled");
}
