//! Programs that are compiled while a run already trains: on a device whose compiler takes its time.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod plans;

use octant_cpu::CpuBackend;
use octant_events::RunDirectory;
use octant_runtime::{
    Backend, Buffer, CompileOptions, Device, Executable, HostTensor, MemoryUse, Mesh, Program, Result, RuntimeError,
    Sharding,
};
use octant_train::run::{RunPlan, Summary, Watcher, run};
use octant_train::{Session, TrainError};
use plans::{Patient, plan};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

/// The processor, with a compiler beside it that holds the evaluation back until it is released, and may refuse it.
struct Beside {
    cpu: CpuBackend,
    gate: Gate,
    refuses: bool,
}

#[derive(Default, Clone)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut open = self.0.0.lock().unwrap();
        while !*open {
            open = self.0.1.wait(open).unwrap();
        }
    }
}

impl Backend for Beside {
    fn name(&self) -> &str {
        "cpu"
    }
    fn devices(&self) -> Vec<Device> {
        self.cpu.devices()
    }
    fn concurrent_compilations(&self) -> usize {
        2
    }
    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Box<dyn Executable>> {
        if program.name == "evaluation step" {
            self.gate.pass();
            if self.refuses {
                return Err(RuntimeError::Compile { backend: "cpu".into(), message: "it has no wish to".into() });
            }
        }
        self.cpu.compile(program, options)
    }
    fn upload(&self, tensor: &HostTensor, mesh: &Mesh, sharding: &Sharding) -> Result<Buffer> {
        self.cpu.upload(tensor, mesh, sharding)
    }
    fn memory(&self) -> Result<Vec<MemoryUse>> {
        self.cpu.memory()
    }
}

/// Lets the evaluation be compiled at the end of that step.
struct OpensAfter {
    step: u64,
    gate: Gate,
    messages: Vec<String>,
}

impl Watcher for OpensAfter {
    fn loss(&mut self, step: u64, _: f64) {
        if step >= self.step {
            self.gate.open();
        }
    }
    fn message(&mut self, text: &str) {
        self.messages.push(text.into());
    }
}

fn backend(gate: &Gate, refuses: bool) -> Arc<dyn Backend> {
    Beside { cpu: CpuBackend::with_threads(1).unwrap(), gate: gate.clone(), refuses }.shared()
}

/// The shared plan with its last phase only: a run of several knows the memory of all before its first step.
fn one_phase(backend: &Arc<dyn Backend>) -> RunPlan {
    let mut plan = plan(backend, 1);
    plan.phases.remove(0);
    plan.run.validate_every = 1;
    plan
}

fn train(plan: &RunPlan, folder: &Path, watcher: &mut dyn Watcher) -> std::result::Result<Summary, TrainError> {
    run(plan, RunDirectory::create(folder, "").unwrap(), None, watcher)
}

fn weights(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("checkpoints/last/model.safetensors")).unwrap()
}

#[test]
fn the_first_steps_waited_for_an_evaluation_that_they_did_not_need() {
    let (gate, folder, plain) = (Gate::default(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut watcher = OpensAfter { step: 2, gate: gate.clone(), messages: Vec::new() };
    // The gate opens when a step has finished, so this would never end if steps waited for the evaluation.
    let summary = train(&one_phase(&backend(&gate, false)), folder.path(), &mut watcher).unwrap();
    let compiled: Vec<_> = summary.programs.iter().map(|program| (program.name.as_str(), program.compiled)).collect();
    assert_eq!(compiled, [("training step", 1), ("evaluation step", 1)]);
    let log = std::fs::read_to_string(folder.path().join("log.txt")).unwrap();
    assert_eq!(log.matches("evaluation step compiled in").count(), 1, "{log}");
    // What is compiled when changes no number.
    train(&one_phase(&cpu()), plain.path(), &mut Patient::default()).unwrap();
    assert!(weights(folder.path()) == weights(plain.path()));
}

#[test]
fn a_wait_for_the_compiler_is_logged() {
    let (gate, folder) = (Gate::default(), tempfile::tempdir().unwrap());
    let mut watcher = OpensAfter { step: u64::MAX, gate: gate.clone(), messages: Vec::new() };
    let plan = one_phase(&backend(&gate, false));
    // Long after the three steps of an epoch.
    let opener = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        gate.open();
    });
    train(&plan, folder.path(), &mut watcher).unwrap();
    opener.join().unwrap();
    let waited = |text: &String| text.starts_with("the validation waited") && text.contains("evaluation step");
    assert!(watcher.messages.iter().any(waited), "{:?}", watcher.messages);
}

#[test]
fn a_program_that_cannot_be_compiled_ended_the_run_only_when_it_was_needed() {
    let (gate, folder) = (Gate::default(), tempfile::tempdir().unwrap());
    let mut plan = one_phase(&backend(&gate, true));
    // An epoch that would not end for hours.
    plan.run.steps_per_epoch = Some(1_000_000);
    let mut watcher = OpensAfter { step: 2, gate, messages: Vec::new() };
    let error = train(&plan, folder.path(), &mut watcher).unwrap_err().to_string();
    assert!(error.contains("it has no wish to"), "{error}");
}

#[test]
fn a_later_phase_that_cannot_be_compiled_is_known_before_the_first_step() {
    let (gate, folder) = (Gate::default(), tempfile::tempdir().unwrap());
    gate.open();
    let plan = plan(&backend(&gate, true), 1);
    assert!(train(&plan, folder.path(), &mut Patient::default()).is_err());
    assert!(!folder.path().join("checkpoints/last").exists());
}

#[test]
fn a_session_alone_waits_for_its_forms_and_compiles_an_evaluation_when_it_is_needed() {
    let (gate, step) = (Gate::default(), octant_train::step::StepPlan::new(plan(&cpu(), 1).phases[0].task.clone(), 4));
    let session = Session::new(&backend(&gate, false), &step, &CompileOptions::default(), 1).unwrap();
    assert!(session.form_usage().all(|usage| usage.compiled.is_some()));
    assert_eq!(session.evaluation_usage().compiled, None);
}

fn cpu() -> Arc<dyn Backend> {
    CpuBackend::with_threads(1).unwrap().shared()
}
