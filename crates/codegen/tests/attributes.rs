//! What cubins say of what their code uses, beside what the vendor's say of the same programs: products of sparse matrices, of `wmma`,
//! addresses of several devices, and what the code needs of a machine.

use cubin::attr::{self, Attr};
use cubin::elf::Elf;

/// The attributes that are compared, of each kernel and of the file.
fn said(cubin: &[u8]) -> Vec<(String, Vec<Attr>)> {
    let elf = Elf::read(cubin).expect("a cubin");
    let compared = [attr::SPARSE_MMA_MASK, attr::WMMA_USED, attr::GRID_ATTRIBUTES];
    let lists = elf.sections.iter().filter(|s| s.name.starts_with(".nv.info.") || s.name == ".nv.compat");
    let mut out: Vec<_> = lists.map(|s| (s.name.clone(), attr::read(&s.data).expect("attributes"))).collect();
    for (_, list) in out.iter_mut().filter(|x| x.0 != ".nv.compat") {
        list.retain(|a| compared.contains(&a.code));
        list.sort_by_key(|a| a.code);
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

/// Programs of the corpus whose code uses what some attribute speaks of, on every chip that they can be compiled for.
#[test]
fn what_is_used_is_said() {
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let words = [
        "mma_sp",
        "wmma",
        "wgmma_sp",
        "multimem",
        "bulk_",
        "tensormap",
        "tensor_2d",
        "tex_2d",
        "mbarrier_",
        "cluster_",
    ];
    let mut compared = 0;
    for path in testkit::files("tests/kernels/features", "ptx") {
        let name = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        // Products of bytes that are floats are those of halves before sm_120; of sparse ones the vendor says both. And small products of
        // integers, which later chips lack, are of a class of their own there.
        let apart = ["mma_sp_e4m3", "wmma_s4"].iter().any(|w| name.starts_with(w));
        if apart || !words.iter().any(|w| name.starts_with(w)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        let line = |word: &str| text.lines().find(|l| l.starts_with(word)).unwrap_or_default().to_string();
        let (version, target) = (line(".version"), line(".target"));
        for chip in ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100a"] {
            let text = text.replacen(&target, &format!(".target {chip}"), 1).replacen(&version, ".version 9.1", 1);
            let (m, d) = ptx::parse(&text);
            let options = codegen::Options { target: arch::Target::parse(chip).expect("a chip"), ..Default::default() };
            if !d.is_empty() || !ptx::check(&m, Some(&options.target)).is_empty() {
                continue;
            }
            let Ok(ours) = codegen::compile(&m, &options) else { continue };
            let Ok(theirs) = testkit::oracle::compile(&ptxas, &text, &[&format!("-arch={chip}")]) else { continue };
            let (mut ours, mut theirs) = (said(&ours.cubin), said(&theirs));
            // Copies to several devices by the bulk engine: the vendor counts a newer form of what it carries beside the code.
            if name == "multimem_bulk" {
                ours.iter_mut().chain(&mut theirs).for_each(|x| x.1.retain(|a| a.code != 0xd));
            }
            assert_eq!(ours, theirs, "{name} on {chip}");
            compared += 1;
        }
    }
    assert!(compared > 60, "{compared}");
}
