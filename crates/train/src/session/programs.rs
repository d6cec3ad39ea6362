//! The programs of a session: training steps that are compiled at once, and others that wait until they are needed.

use crate::memory::Needs;
use crate::step::{self, StepPlan, TracedStep};
use crate::{Task, TrainError};
use octant_runtime::{Backend, Buffer, CompileOptions, Cost, Executable, Program, RuntimeError};
use std::sync::Arc;

/// What became of one of a session's programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// The program's name.
    pub program: String,
    /// How long it took until it could run; none if it was never needed.
    pub compiled: Option<Cost>,
    /// How often it was run.
    pub executions: u64,
}

/// A program compiled when it is first needed: minutes on a large network, and perhaps never.
pub(super) struct Lazy {
    program: Program,
    options: CompileOptions,
    executable: Option<Box<dyn Executable>>,
    executions: u64,
}

impl Lazy {
    pub fn new(program: Program, options: &CompileOptions) -> Lazy {
        Lazy { program, options: options.clone(), executable: None, executions: 0 }
    }

    /// Runs the program, after compiling it if this is the first time.
    pub fn execute(&mut self, backend: &dyn Backend, inputs: &[Buffer]) -> Result<Vec<Buffer>, RuntimeError> {
        let executable = match self.executable.take() {
            Some(executable) => executable,
            None => backend.compile(&self.program, &self.options)?,
        };
        self.executions += 1;
        self.executable.insert(executable).execute(inputs)
    }

    /// What was run so far does not count.
    pub fn forget(&mut self) {
        self.executions = 0;
    }

    pub fn usage(&self) -> Usage {
        let compiled = self.executable.as_ref().map(|executable| executable.cost());
        Usage { program: self.program.name.clone(), compiled, executions: self.executions }
    }
}

/// Images that show what was learned.
pub(super) struct Samples {
    pub program: Lazy,
    pub names: Vec<&'static str>,
    /// The entries that it reads.
    pub reads: Vec<usize>,
}

/// The training step, compiled for one form of the task and one batch size.
pub(super) struct Form {
    pub task: Arc<dyn Task>,
    pub train: Box<dyn Executable>,
    /// Steps that were queued.
    pub executions: u64,
}

/// Compiles another form of a step, which must have the same state.
pub(super) fn compile_form(
    backend: &dyn Backend,
    plan: &StepPlan,
    options: &CompileOptions,
    first: &TracedStep,
) -> Result<Form, TrainError> {
    let traced = step::training(plan)?;
    if traced.entries != first.entries {
        return Err(TrainError::Data("two forms of the training step do not have the same state".into()));
    }
    let train = Needs::of(plan, &traced).compile(backend, &traced, options)?;
    Ok(Form { task: plan.task.clone(), train, executions: 0 })
}
