//! Programs through XLA's CPU implementation: one Python process for many programs.

use octant_graph::{HostTensor, Shape};
use octant_runtime::{Program, Sharding};
use octant_stablehlo::{LoweringOptions, MatmulPrecision, lower};
use octant_tensor::{AlignedBytes, Bytes};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python that has jaxlib.
pub fn python() -> Option<PathBuf> {
    octant_testing::oracle::python("jaxlib running lowered programs").map(PathBuf::from)
}

/// A program, how it is lowered, and its inputs.
pub struct Run {
    pub program: Program,
    pub options: LoweringOptions,
    pub inputs: Vec<HostTensor>,
}

impl Run {
    /// With exact products and otherwise as usual.
    pub fn new(program: Program, inputs: Vec<HostTensor>) -> Run {
        Run {
            program,
            options: LoweringOptions { precision: MatmulPrecision::Highest, ..LoweringOptions::default() },
            inputs,
        }
    }
}

/// What XLA compiles element-wise code with.
#[derive(Clone, Copy)]
pub enum Emitters {
    /// A third of the compilation time. Integers to negative powers are wrong, and bools cannot be clamped.
    Quick,
    Usual,
}

/// Runs programs on their inputs, compiled quickly.
pub fn run(python: &Path, runs: &[Run]) -> Vec<Result<Vec<HostTensor>, String>> {
    run_with(python, runs, Emitters::Quick)
}

/// Runs programs on their inputs.
pub fn run_with(python: &Path, runs: &[Run], emitters: Emitters) -> Vec<Result<Vec<HostTensor>, String>> {
    let folder = tempfile::tempdir().unwrap();
    let described: Vec<Value> = runs.iter().enumerate().map(|(i, run)| write(folder.path(), i, run)).collect();
    std::fs::write(folder.path().join("cases.json"), serde_json::to_string(&described).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle/run.py");
    let emitters = match emitters {
        Emitters::Quick => "quick",
        Emitters::Usual => "usual",
    };
    let status = Command::new(python).arg(script).arg(folder.path()).arg(emitters).status();
    assert!(status.as_ref().is_ok_and(|status| status.success()), "the oracle did not run: {status:?}");
    let problems = std::fs::read_to_string(folder.path().join("results.json")).unwrap();
    let problems: Vec<Option<String>> = serde_json::from_str(&problems).unwrap();
    let outcome = |(i, problem): (usize, Option<String>)| match problem {
        Some(problem) => Err(problem),
        None => Ok(read(&folder.path().join(format!("{i}.out")), &runs[i].program.graph.output_shapes())),
    };
    problems.into_iter().enumerate().map(outcome).collect()
}

fn write(folder: &Path, i: usize, Run { program, options, inputs }: &Run) -> Value {
    std::fs::write(folder.join(format!("{i}.mlir")), lower(program, options).unwrap()).unwrap();
    let bytes: Vec<u8> = inputs.iter().flat_map(|input| input.bytes().to_vec()).collect();
    std::fs::write(folder.join(format!("{i}.in")), bytes).unwrap();
    let mesh = &program.mesh;
    let describe = |shapes: Vec<Shape>, shardings: &[Sharding]| -> Vec<Value> {
        let one = |(shape, sharding): (&Shape, &Sharding)| {
            let along = |dimension: usize| -> Vec<&str> {
                let axes = sharding.axes(dimension).iter().filter(|&&axis| mesh.length(axis) > 1);
                axes.map(|axis| axis.name()).collect()
            };
            let split: Vec<Vec<&str>> = (0..shape.rank()).map(along).collect();
            json!({"dtype": shape.dtype().name(), "dims": shape.dims(), "split": split})
        };
        shapes.iter().zip(shardings).map(one).collect()
    };
    json!({
        "module": format!("{i}.mlir"), "inputs": format!("{i}.in"), "outputs": format!("{i}.out"),
        "mesh": mesh.axes().iter().map(|(axis, length)| (axis.name(), *length)).collect::<Vec<_>>(),
        "arguments": describe(program.graph.input_shapes(), &program.inputs),
        "results": describe(program.graph.output_shapes(), &program.outputs),
    })
}

fn read(path: &Path, shapes: &[Shape]) -> Vec<HostTensor> {
    let bytes = Bytes::new(AlignedBytes::copy_of(&std::fs::read(path).unwrap()));
    let mut start = 0;
    let mut next = |shape: &Shape| {
        let part = bytes.slice(start..start + shape.bytes()).expect("the oracle wrote every result");
        start += shape.bytes();
        HostTensor::from_bytes(shape.clone(), part).unwrap()
    };
    shapes.iter().map(&mut next).collect()
}
