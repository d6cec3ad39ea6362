//! The programs of a session: the training step in its forms, the evaluation, and what is only watched.

use super::compiler::{Compiler, SessionProgram, Usage};
use crate::memory::Needs;
use crate::step::{self, StepPlan, TracedStep};
use crate::{Task, TrainError};
use octant_runtime::{Backend, CompileOptions, MemoryPlan};
use std::sync::Arc;

/// The programs of a session before it has a state: those of a later phase are compiled before the first step of a run, so
/// that one that does not fit is known then.
pub(crate) struct SessionPrograms {
    pub traced: Arc<TracedStep>,
    pub needs: Needs,
    /// The training step, for every batch size in every form of the task. The first one is that of `traced`.
    pub forms: Vec<Form>,
    pub evaluation: SessionProgram,
    /// How many sums an evaluation has.
    pub counted: usize,
    /// The entries that an evaluation reads: averages where there are any, variables otherwise.
    pub evaluated: Vec<usize>,
}

/// The training step for one form of the task and one batch size.
pub(crate) struct Form {
    pub task: Arc<dyn Task>,
    pub train: SessionProgram,
}

/// Images that show what was learned.
pub(super) struct Samples {
    pub program: SessionProgram,
    pub names: Vec<&'static str>,
    /// The entries that it reads.
    pub reads: Vec<usize>,
}

impl SessionPrograms {
    /// Begins to compile the training step in all its forms, and the evaluation.
    pub fn begin_all(
        compiler: &Compiler,
        backend: &Arc<dyn Backend>,
        plan: &StepPlan,
        options: &CompileOptions,
    ) -> Result<SessionPrograms, TrainError> {
        let mut programs = SessionPrograms::begin(compiler, backend, plan, options, step::training(plan)?)?;
        programs.evaluation.begin(compiler)?;
        Ok(programs)
    }

    /// Begins to compile the training step in all its forms, the first one first; the evaluation step is traced only.
    pub fn begin(
        compiler: &Compiler,
        backend: &Arc<dyn Backend>,
        plan: &StepPlan,
        options: &CompileOptions,
        traced: TracedStep,
    ) -> Result<SessionPrograms, TrainError> {
        let needs = Needs::of(plan, &traced);
        let mut first = SessionProgram::learning(backend, traced.program.clone(), needs.clone(), options);
        first.begin(compiler)?;
        let mut forms = vec![Form { task: plan.task.clone(), train: first }];
        for (number, form) in plan.forms().iter().enumerate().skip(1) {
            let mut other = step::training(form)?;
            if other.entries != traced.entries {
                return Err(TrainError::Data("two forms of the training step do not have the same state".into()));
            }
            other.program.name = format!("{} {}", other.program.name, number + 1);
            let needs = Needs::of(form, &other);
            let mut train = SessionProgram::learning(backend, other.program, needs, options);
            train.begin(compiler)?;
            forms.push(Form { task: form.task.clone(), train });
        }
        let counting = step::evaluation(plan)?;
        let evaluated = super::evaluated(&traced, &counting.variables)?;
        let (counted, evaluation) = (counting.sums, SessionProgram::new(backend, counting.program, options));
        let traced = Arc::new(traced);
        Ok(SessionPrograms { traced, needs, forms, evaluation, counted, evaluated })
    }

    /// Waits for all that was begun.
    pub fn wait(&mut self) -> Result<(), TrainError> {
        self.forms.iter_mut().try_for_each(|form| form.train.wait().map(drop))?;
        if self.evaluation.is_compiling() { self.evaluation.wait().map(drop) } else { Ok(()) }
    }

    /// The memory on each device of the largest training step that is compiled, and of the evaluation step if it is.
    pub fn memory(&self) -> (MemoryPlan, Option<MemoryPlan>) {
        let training = self.forms.iter().filter_map(|form| form.train.memory()).max_by_key(MemoryPlan::peak);
        (training.unwrap_or_default(), self.evaluation.memory())
    }

    /// The forms of the training step: those of the task for `batch_size`, then for the other sizes.
    pub fn form_usage(&self) -> impl Iterator<Item = Usage> {
        self.forms.iter().map(|form| form.train.usage())
    }
}
