//! The engine passes the suite that every backend must pass, with every instruction set of this machine.

octant_conformance::conformance!(octant_cpu::CpuBackend::with_threads(2).unwrap());

/// Runs this very program again for each instruction set but the best, which the other tests use.
#[test]
fn every_instruction_set_passes() {
    use octant_cpu::simd::Level;
    let program = std::env::current_exe().unwrap();
    let levels = Level::available();
    for level in &levels[..levels.len() - 1] {
        let name = format!("{level:?}").to_lowercase();
        let mut suite = std::process::Command::new(&program);
        let output = suite.args(["--skip", "every_instruction_set"]).env("OCTANT_SIMD", &name).output().unwrap();
        assert!(output.status.success(), "with {name}:\n{}", String::from_utf8_lossy(&output.stdout));
    }
}
