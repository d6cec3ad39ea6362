//! The programs of a session: training steps that are compiled at once, and others that wait until they are needed.

use crate::memory::Needs;
use crate::step::{self, StepPlan, TracedStep};
use crate::{Task, TrainError};
use octant_runtime::{Backend, Buffer, CompileOptions, Cost, Executable, MemoryPlan, Program, RuntimeError};
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
        self.prepare(backend)?;
        self.executions += 1;
        self.executable.as_ref().expect("it was just compiled").execute(inputs)
    }

    /// Compiles the program now, if it is not yet.
    pub fn prepare(&mut self, backend: &dyn Backend) -> Result<(), RuntimeError> {
        if self.executable.is_none() {
            self.executable = Some(backend.compile(&self.program, &self.options)?);
        }
        Ok(())
    }

    /// What was run so far does not count.
    pub fn forget(&mut self) {
        self.executions = 0;
    }

    /// The memory of a run on each device, once it is compiled.
    pub fn memory(&self) -> Option<MemoryPlan> {
        self.executable.as_ref().map(|executable| executable.memory())
    }

    pub fn usage(&self) -> Usage {
        let compiled = self.executable.as_ref().map(|executable| executable.cost());
        Usage { program: self.program.name.clone(), compiled, executions: self.executions }
    }
}

/// The programs of a session before it has a state: those of a later phase are compiled before the first step of a run, so
/// that one that does not fit is known then.
pub struct SessionPrograms {
    pub(super) traced: TracedStep,
    pub(super) needs: Needs,
    /// The training step, for every batch size in every form of the task. The first one is that of `traced`.
    pub(super) forms: Vec<Form>,
    pub(super) evaluation: Lazy,
    /// How many sums an evaluation has.
    pub(super) counted: usize,
    /// The entries that an evaluation reads: averages where there are any, variables otherwise.
    pub(super) evaluated: Vec<usize>,
}

impl SessionPrograms {
    /// Traces and compiles the training step in all its forms, and the evaluation step.
    pub fn new(
        backend: &dyn Backend,
        plan: &StepPlan,
        options: &CompileOptions,
    ) -> Result<SessionPrograms, TrainError> {
        let traced = step::training(plan)?;
        let needs = Needs::of(plan, &traced);
        let first = needs.compile(backend, &traced, options)?;
        let mut programs = SessionPrograms::with_first(backend, plan, options, traced, needs, first)?;
        programs.evaluation.prepare(backend)?;
        Ok(programs)
    }

    /// The same where the first form is compiled; the evaluation step is traced only.
    pub(super) fn with_first(
        backend: &dyn Backend,
        plan: &StepPlan,
        options: &CompileOptions,
        traced: TracedStep,
        needs: Needs,
        first: Box<dyn Executable>,
    ) -> Result<SessionPrograms, TrainError> {
        let mut forms = vec![Form { task: plan.task.clone(), train: first, executions: 0 }];
        for form in plan.forms().iter().skip(1) {
            forms.push(compile_form(backend, form, options, &traced)?);
        }
        let counting = step::evaluation(plan)?;
        let evaluated = super::evaluated(&traced, &counting.variables)?;
        let (counted, evaluation) = (counting.sums, Lazy::new(counting.program, options));
        Ok(SessionPrograms { traced, needs, forms, evaluation, counted, evaluated })
    }

    /// The memory on each device of the largest training step, and of the evaluation step.
    pub fn memory(&self) -> [MemoryPlan; 2] {
        let training = self.forms.iter().map(|form| form.train.memory()).max_by_key(MemoryPlan::peak);
        [training, self.evaluation.memory()].map(Option::unwrap_or_default)
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
