//! Our files beside the vendor's: what is known about a vendor's cubin makes the same cubin again, and the vendor's tools read
//! it.

mod common;

use cubin::diff::diff;
use cubin::elf::Elf;
use cubin::image::Image;
use cubin::load::{Loaded, Place};
use std::path::Path;
use std::process::Command;
use testkit::Scratch;

/// Debug information of source lines is not written, so it is not compared; nor is the place of the frame in `.debug_frame`,
/// which is no fact of the file.
fn is_debug(part: &str, what: &str) -> bool {
    [".debug", ".nv_debug", ".rela.debug", ".rela.nv_debug"].iter().any(|p| part.starts_with(p))
        || ["has .debug_", "has .nv_debug", "has .rela.debug_", "has .rela.nv_debug"].iter().any(|p| what.contains(p))
}

fn read(oracle: &Path, tool: &str, args: &[&str], file: &Path) {
    let out = Command::new(oracle.join("bin").join(tool)).args(args).arg(file).output().expect("the tool runs");
    let errors = String::from_utf8_lossy(&out.stderr);
    // It says so of the vendor's empty modules too.
    let errors = errors.replace("Skipping .debug_frame section, as length was 0", "");
    assert!(out.status.success() && errors.trim().is_empty(), "{tool} {args:?} of {}: {errors}", file.display());
}

#[test]
fn the_same_facts_make_the_same_file() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("image");
    let (mut files, mut identical) = (0, 0);
    let mut wrong = Vec::new();
    for ptx in common::corpus() {
        let text = std::fs::read_to_string(&ptx).expect("readable");
        for arch in ["sm_90", "sm_90a"] {
            let Some(bytes) = common::compile(&oracle, &text, arch, &[]) else { continue };
            let name = ptx.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let theirs = Elf::read(&bytes).expect("readable");
            let image = Image::read(&theirs).expect("an image");
            let ours = image.emit().expect("a file");
            let written = ours.write();
            assert!(Elf::read(&written).expect("readable") == ours, "{name}");
            assert!(Image::read(&ours).expect("an image") == image, "{name}");
            files += 1;
            let same = |(x, y): (&cubin::elf::Section, &cubin::elf::Section)| {
                x.data == y.data || x.name.starts_with(".debug_frame") || x.name.starts_with(".rela.debug_frame")
            };
            let all =
                ours.sections.len() == theirs.sections.len() && ours.sections.iter().zip(&theirs.sections).all(same);
            identical += all as usize;
            if !all && theirs.section(".debug_line").is_none() {
                let names = ours.sections.iter().zip(&theirs.sections).filter(|&p| !same(p)).map(|p| &p.0.name);
                wrong.push(format!("{name} {arch}: bytes of {:?}", names.collect::<Vec<_>>()));
            }
            for d in diff(&ours, &theirs) {
                if !is_debug(&d.part, &d.what) {
                    wrong.push(format!("{name} {arch}: {d}"));
                }
            }
            if theirs.sections.iter().all(|s| !s.name.starts_with(".debug_line")) {
                let sizes =
                    |e: &Elf| e.segments.iter().map(|s| (s.kind, s.flags, s.filesz, s.memsz)).collect::<Vec<_>>();
                if sizes(&ours) != sizes(&theirs) {
                    wrong.push(format!("{name} {arch}: segments {:x?} and {:x?}", sizes(&ours), sizes(&theirs)));
                }
            }
            Loaded::load(&ours).expect("loadable");
            if (arch == "sm_90") != name.starts_with("triton") {
                let file = dir.join("ours.cubin");
                std::fs::write(&file, &written).expect("writable");
                read(&oracle, "cuobjdump", &["-elf"], &file);
                // The slower ones on a part of the files.
                if files % 5 == 0 {
                    read(&oracle, "cuobjdump", &["-sass"], &file);
                    read(&oracle, "cuobjdump", &["-res-usage"], &file);
                    read(&oracle, "nvdisasm", &["-c"], &file);
                }
                let linked = dir.join("linked.cubin");
                let o = linked.to_string_lossy().into_owned();
                read(&oracle, "nvlink", &[&format!("-arch={arch}"), "-o", &o], &file);
            }
        }
    }
    eprintln!("{files} files, {identical} identical");
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    assert!(files > 100 && identical > 100, "{files} files, {identical} identical");
}

#[test]
fn addresses_are_filled_in() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let ptx = common::corpus().into_iter().find(|p| p.ends_with("modules.ptx")).expect("modules.ptx");
    let text = std::fs::read_to_string(ptx).expect("readable");
    let bytes = common::compile(&oracle, &text, "sm_90", &[]).expect("compiles");
    let mut loaded = Loaded::load(&Elf::read(&bytes).expect("readable")).expect("loadable");
    let base = |place, _generic| match place {
        Place::GlobalInit => Some(0x10_0000),
        Place::Global => Some(0x20_0000),
        _ => None,
    };
    loaded.relocate(&base).expect("addresses");
    let words = |b: &[u8]| b.chunks(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect::<Vec<_>>();
    // visible_counter, factors, counter, pad, pointer, text: visible ones first.
    let slots = [0x20_0020, 0x10_0008, 0x20_0028, 0x20_0000, 0x10_0000, 0x10_0018];
    assert_eq!(words(&loaded.constant4), slots);
    assert_eq!(words(&loaded.globals[0].bytes[..8]), [0x20_0004]);
    let first = loaded.kernels.iter().find(|k| k.name == "first").expect("first");
    assert_eq!((first.shared, first.barriers, first.param_base, first.param_bytes), (0x460, 4, 0x210, 40));
    assert_eq!((first.threads, first.functions.len()), (Some(([128, 2, 1], false)), 1));
}
