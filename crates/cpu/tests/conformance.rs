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

/// The suite checks this only for numbers that f32 holds, because other backends convert through that type and round twice.
#[test]
fn f64_becomes_f16_in_one_rounding() {
    use octant_conformance::{Case, Tolerance, values};
    use octant_graph::{DType, HostTensor, Op};
    use octant_runtime::{Backend, CompileOptions, Mesh, Program, Sharding};
    // Just off the middle between two neighbors in f16, which is where f32 would put them.
    let near = [1.0 + 2f64.powi(-11) + 2f64.powi(-40), 35.421875 - 2f64.powi(-30), -2049.0 - 2f64.powi(-35)];
    let twice = near.map(|x| values::tensor(DType::F16, &[], &[f64::from(x as f32)]).to_f64s()[0]);
    let once = near.map(|x| values::tensor(DType::F16, &[], &[x]).to_f64s()[0]);
    assert!(once.iter().zip(&twice).all(|(once, twice)| once != twice), "the second rounding matters");

    let inputs = vec![values::tensor(DType::F64, &[3], &near), values::between(0.0, 300.0, DType::F64, &[1003])];
    let convert = |trace: &octant_graph::Trace, x: &[octant_graph::Tensor]| {
        x.iter().map(|x| trace.emit_one(Op::Convert(DType::F16), &[x])).collect()
    };
    let case = Case::new("convert/once", inputs, Tolerance::EXACT, convert);
    assert_eq!(case.expected().unwrap()[0].to_f64s(), once);
    let backend = octant_cpu::CpuBackend::with_threads(2).unwrap();
    let program = Program::new("convert", case.graph.clone());
    let executable = backend.compile(&program, &CompileOptions::default()).unwrap();
    let upload = |input: &HostTensor| backend.upload(input, &Mesh::new(1), &Sharding::REPLICATED).unwrap();
    let buffers: Vec<_> = case.inputs.iter().map(upload).collect();
    let given: Vec<HostTensor> =
        executable.execute(&buffers).unwrap().iter().map(|output| output.to_host().unwrap()).collect();
    case.check(&given).unwrap();
}
