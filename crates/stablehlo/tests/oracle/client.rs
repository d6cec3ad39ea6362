//! Programs through XLA's CPU implementation: one Python process for many programs.

use octant_graph::{HostTensor, Shape};
use octant_runtime::{Program, Sharding};
use octant_stablehlo::{LoweringOptions, MatmulPrecision, lower, portable};
use octant_tensor::{AlignedBytes, Bytes};
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};
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
    /// As a portable artifact instead of text.
    pub portable: bool,
}

impl Run {
    /// With exact products and otherwise as usual.
    pub fn new(program: Program, inputs: Vec<HostTensor>) -> Run {
        Run {
            program,
            options: LoweringOptions { precision: MatmulPrecision::Highest, ..LoweringOptions::default() },
            inputs,
            portable: false,
        }
    }

    /// What XLA reads.
    fn module(&self) -> Vec<u8> {
        match self.portable {
            true => portable(&self.program, self.options.precision, &[]).unwrap(),
            false => lower(&self.program, &self.options).unwrap().into(),
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

/// Runs programs on their inputs. What a program computed is kept below `target`, by everything that it depends on: several tests
/// run the same program, and most changes of the code leave most programs as they were.
pub fn run_with(python: &Path, runs: &[Run], emitters: Emitters) -> Vec<Result<Vec<HostTensor>, String>> {
    let emitters = match emitters {
        Emitters::Quick => "quick",
        Emitters::Usual => "usual",
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle/run.py");
    let surroundings = [std::fs::read(&script).unwrap(), emitters.into(), versions(python)].concat();
    let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xla-results");
    std::fs::create_dir_all(&store).unwrap();
    let written: Vec<Written> = runs.iter().map(Written::of).collect();
    let stored: Vec<PathBuf> = written.iter().map(|run| store.join(run.key(&surroundings))).collect();
    let missing: Vec<usize> = (0..runs.len()).filter(|&run| !stored[run].exists()).collect();
    let mut problems = vec![None; runs.len()];
    if !missing.is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let cases: Vec<Value> =
            missing.iter().enumerate().map(|(i, &run)| written[run].write(folder.path(), i)).collect();
        std::fs::write(folder.path().join("cases.json"), serde_json::to_string(&cases).unwrap()).unwrap();
        let status = Command::new(python).arg(script).arg(folder.path()).arg(emitters).status();
        assert!(status.as_ref().is_ok_and(|status| status.success()), "the oracle did not run: {status:?}");
        let outcomes = std::fs::read_to_string(folder.path().join("results.json")).unwrap();
        let outcomes: Vec<Option<String>> = serde_json::from_str(&outcomes).unwrap();
        for (i, (run, problem)) in missing.into_iter().zip(outcomes).enumerate() {
            if problem.is_none() {
                // Whole or not at all, also where another test runs the same program.
                let partial = store.join(format!(".{}-{run}", folder.path().file_name().unwrap().display()));
                std::fs::copy(folder.path().join(format!("{i}.out")), &partial).unwrap();
                std::fs::rename(&partial, &stored[run]).unwrap();
            }
            problems[run] = problem;
        }
    }
    let outcome = |(run, problem): (usize, Option<String>)| match problem {
        Some(problem) => Err(problem),
        None => Ok(read(&stored[run], &runs[run].program.graph.output_shapes())),
    };
    problems.into_iter().enumerate().map(outcome).collect()
}

/// The packages beside a Python that `cargo xtask test` installed.
fn versions(python: &Path) -> Vec<u8> {
    let installed = python.parent().and_then(Path::parent).map(|folder| folder.join("installed"));
    installed.and_then(|file| std::fs::read(file).ok()).unwrap_or_else(|| python.display().to_string().into())
}

/// What XLA is given of a run.
struct Written {
    module: Vec<u8>,
    inputs: Vec<u8>,
    /// Mesh, arguments and results.
    description: Value,
}

impl Written {
    fn of(run: &Run) -> Written {
        let Run { program, inputs, .. } = run;
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
        Written {
            module: run.module(),
            inputs: inputs.iter().flat_map(|input| input.bytes().to_vec()).collect(),
            description: json!({
                "mesh": mesh.axes().iter().map(|(axis, length)| (axis.name(), *length)).collect::<Vec<_>>(),
                "arguments": describe(program.graph.input_shapes(), &program.inputs),
                "results": describe(program.graph.output_shapes(), &program.outputs),
            }),
        }
    }

    /// A file name for what is computed, here and with these versions.
    fn key(&self, surroundings: &[u8]) -> String {
        let half = |seed: u8| {
            let mut hasher = DefaultHasher::new();
            (seed, &self.module, &self.inputs, self.description.to_string(), surroundings).hash(&mut hasher);
            hasher.finish()
        };
        format!("{:016x}{:016x}", half(0), half(1))
    }

    fn write(&self, folder: &Path, i: usize) -> Value {
        std::fs::write(folder.join(format!("{i}.mlir")), &self.module).unwrap();
        std::fs::write(folder.join(format!("{i}.in")), &self.inputs).unwrap();
        let mut case = self.description.clone();
        for (key, ending) in [("module", "mlir"), ("inputs", "in"), ("outputs", "out")] {
            case[key] = format!("{i}.{ending}").into();
        }
        case
    }
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
