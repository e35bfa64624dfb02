//! The rules of `Target` against the answers of the vendor's ptxas.

use std::path::Path;
use std::process::Command;
use testkit::Scratch;

fn accepts(ptxas: &Path, dir: &Path, version: (u16, u16), target: &str, gpu: &str) -> bool {
    let file = dir.join("a.ptx");
    let text = format!(".version {}.{}\n.target {target}\n.visible .entry k() {{ ret; }}\n", version.0, version.1);
    std::fs::write(&file, text).expect("the temporary folder is writable");
    let mut command = Command::new(ptxas);
    command.arg(format!("-arch={gpu}")).arg(&file).arg("-o").arg(dir.join("a.bin"));
    command.output().expect("ptxas runs").status.success()
}

#[test]
fn every_pair_of_ptx_target_and_gpu() {
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let dir = Scratch::new("pairs");
    let mut names: Vec<String> = arch::TARGETS.iter().map(|t| t.to_string()).collect();
    names.extend(["sm_50", "sm_61", "sm_72", "sm_82", "sm_101a"].map(String::from));
    let mut wrong = Vec::new();
    for name in &names {
        let ptx = arch::Target::parse(name).expect(name);
        for gpu in arch::TARGETS {
            if accepts(&ptxas, &dir, arch::LATEST_PTX, name, &gpu.to_string()) != gpu.can_run(ptx) {
                wrong.push(format!("{name} on {gpu}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn first_version_of_every_target() {
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let dir = Scratch::new("versions");
    for gpu in arch::TARGETS {
        let name = gpu.to_string();
        let first = arch::PTX_VERSIONS.iter().position(|&v| v == gpu.since()).expect("a version that exists");
        assert!(accepts(&ptxas, &dir, arch::PTX_VERSIONS[first], &name, &name), "{name} in {:?}", gpu.since());
        assert!(!accepts(&ptxas, &dir, arch::PTX_VERSIONS[first - 1], &name, &name), "{name} before {:?}", gpu.since());
    }
}
