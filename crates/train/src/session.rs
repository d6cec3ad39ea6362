//! A compiled step with its state: what the training loop drives.

mod background;
mod compiler;
mod inspection;
mod programs;

pub(crate) use compiler::Compiler;
pub use compiler::Usage;
pub(crate) use programs::SessionPrograms;

use crate::accumulation::Accumulation;
use crate::checkpoint::{Snapshot, averages};
use crate::in_flight::{InFlight, Observation};
use crate::state::{State, full};
use crate::step::{self, BAD_STEP_SUMS, Role, StateEntry, StepPlan, TracedStep};
use crate::{Metric, Task, TrainError, Values, spread};
use compiler::SessionProgram;
use octant_data::Batch;
use octant_graph::{DType, HostTensor, Shape};
use octant_nn::VariableSpec;
use octant_runtime::{
    Backend, Buffer, CompileOptions, Cost, Executable, MemoryPlan, MemoryUse, Mesh, RuntimeError, Sharding,
};
use programs::Samples;
use std::collections::HashMap;
use std::sync::Arc;

/// A batch on the devices, and the form of the step that learns from it.
pub(crate) struct UploadedBatch {
    form: usize,
    buffers: Vec<Buffer>,
}

/// One network being trained on one backend.
pub struct Session {
    backend: Arc<dyn Backend>,
    task: Arc<dyn Task>,
    mesh: Mesh,
    seed: u64,
    accumulation: Accumulation,
    programs: SessionPrograms,
    batch_sizes: Vec<usize>,
    /// The gradients alone and the variables they belong to, where they are watched.
    gradients: Option<(SessionProgram, Vec<usize>)>,
    samples: Option<Samples>,
    state: State,
    counts: Buffer,
    steps: u64,
    /// Batches that norms have taken into their running statistics.
    tracked: u64,
    tracks: bool,
    /// The loss of every step is wanted.
    keeps_losses: bool,
    in_flight: InFlight,
}

impl Session {
    /// Compiles the training step, traces the evaluation step and initializes the state from the seed.
    pub fn new(
        backend: &Arc<dyn Backend>,
        plan: &StepPlan,
        options: &CompileOptions,
        seed: u64,
    ) -> Result<Session, TrainError> {
        Session::with_state(backend, plan, options, seed, &Values::new())
    }

    /// The same, with everything that `known` names starting from there; a name that the step does not have is refused.
    pub fn with_state(
        backend: &Arc<dyn Backend>,
        plan: &StepPlan,
        options: &CompileOptions,
        seed: u64,
        known: &Values,
    ) -> Result<Session, TrainError> {
        let traced = step::training(plan)?;
        known.check_names(&traced.entries)?;
        let compiler = Compiler::of(&**backend);
        let mut programs = SessionPrograms::begin(&compiler, backend, plan, options, traced)?;
        programs.wait()?;
        Session::with_programs(backend, plan, programs, seed, known)
    }

    /// The same with programs that were begun before, for the same plan: it begins when the first form is compiled. `carried` may
    /// have what the step does not.
    pub(crate) fn with_programs(
        backend: &Arc<dyn Backend>,
        plan: &StepPlan,
        mut programs: SessionPrograms,
        seed: u64,
        carried: &Values,
    ) -> Result<Session, TrainError> {
        let traced = programs.traced.clone();
        // A large state takes as long to initialize and to copy as a stored program takes to load.
        let (compiled, state) = std::thread::scope(|scope| {
            let state = scope.spawn(|| State::new(&**backend, &traced, carried, |spec| spec.initial(seed)));
            let compiled = programs.forms[0].train.wait().map(drop);
            (compiled, state.join().expect("initializing and copying the state does not panic"))
        });
        // The compiler's error comes first: it knows by how much a step is too large.
        compiled?;
        Session::bind(backend, plan, programs, seed, state?)
    }

    fn bind(
        backend: &Arc<dyn Backend>,
        plan: &StepPlan,
        programs: SessionPrograms,
        seed: u64,
        state: State,
    ) -> Result<Session, TrainError> {
        let (task, mesh) = (plan.task.clone(), plan.mesh.clone());
        let norms = plan.phase.norms(&programs.traced.variables, &task.head_paths());
        let tracks = norms.iter().any(|(_, keeps)| !keeps);
        let counts = backend.upload(&zeros(programs.counted), &mesh, &Sharding::REPLICATED)?;
        Ok(Session {
            backend: backend.clone(),
            task,
            mesh,
            seed,
            accumulation: Accumulation::of(plan),
            programs,
            batch_sizes: plan.step.batch_sizes(),
            gradients: None,
            samples: None,
            state,
            counts,
            steps: 0,
            tracked: 0,
            tracks,
            keeps_losses: false,
            in_flight: InFlight::default(),
        })
    }

    /// Continues the counts of a checkpoint: all steps of the run, the batches that this optimizer has seen, and those that
    /// went into running statistics.
    pub fn set_counts(&mut self, steps: u64, batches: u64, tracked: u64) {
        (self.steps, self.tracked) = (steps, tracked);
        self.accumulation.go_to(batches);
    }

    /// Keeps the loss of every step for [`losses`](Session::losses).
    pub fn keep_losses(&mut self) {
        self.keeps_losses = true;
    }

    /// The losses of steps that have finished since the last call, by their numbers; of all queued ones with `wait`.
    pub fn losses(&mut self, wait: bool) -> Result<Vec<(u64, f64)>, TrainError> {
        if wait {
            self.in_flight.wait()?;
        }
        let value =
            |buffer: Buffer| Ok::<_, TrainError>(buffer.to_host()?.to_f64s().first().copied().unwrap_or(f64::NAN));
        self.in_flight.finished().into_iter().map(|(step, buffer)| Ok((step, value(buffer)?))).collect()
    }

    /// Queues one step of learning; returns before it has run, but not before all but a few of the queued ones have.
    pub fn train(&mut self, batch: &Batch, rate: f64) -> Result<(), TrainError> {
        let batch = self.upload_to_train(batch)?;
        self.train_uploaded(batch, rate)
    }

    /// Starts to copy a batch to the devices, for the form that learns from it.
    pub(crate) fn upload_to_train(&self, batch: &Batch) -> Result<UploadedBatch, TrainError> {
        let (form, size) = self.form_of(batch);
        let buffers = spread::upload(&*self.backend, &*self.programs.forms[form].task, &self.mesh, size, batch)?;
        Ok(UploadedBatch { form, buffers })
    }

    /// [`train`](Session::train) on a batch that was uploaded before.
    pub(crate) fn train_uploaded(&mut self, batch: UploadedBatch, rate: f64) -> Result<(), TrainError> {
        self.train_form(batch.form, batch.buffers, rate)
    }

    /// The form that learns from a batch, and how many images it takes. One of a size that nothing was compiled for is refused
    /// when the first one runs.
    fn form_of(&self, batch: &Batch) -> (usize, usize) {
        let is_whole = |size: usize| size == batch.indices.len();
        let is_part = |size: usize| spread::rows_here(size, &self.mesh).len() == batch.indices.len();
        let sizes = &self.batch_sizes;
        let size = sizes.iter().position(|&size| is_part(size)).or(sizes.iter().position(|&size| is_whole(size)));
        let of_task = match self.mesh.process().is_alone() {
            true => self.task.form_of(batch, self.seed),
            false => self.task.form_of_part(batch, self.seed),
        };
        let size = size.unwrap_or(0);
        (size * (self.programs.forms.len() / sizes.len()) + of_task, sizes[size])
    }

    /// The same for a batch that is already on the device, as benchmarks have it.
    pub fn train_on(&mut self, batch: Vec<Buffer>, rate: f64) -> Result<(), TrainError> {
        self.train_form(0, batch, rate)
    }

    fn train_form(&mut self, form: usize, batch: Vec<Buffer>, rate: f64) -> Result<(), TrainError> {
        let step = self.steps + 1;
        let mut accumulation = self.accumulation.clone();
        let (update, applies) = accumulation.next();
        // The step's key: dropout differs at every step and is the same after a resume.
        let key = [self.seed as u32, step as u32];
        let scalars = [
            HostTensor::scalar(rate as f32),
            HostTensor::scalar(update as f32),
            HostTensor::scalar(applies as u8 as f32),
            HostTensor::new([2], &key).expect("two words"),
        ];
        let upload = |scalar| self.backend.upload(scalar, &self.mesh, &Sharding::REPLICATED);
        let scalars = scalars.iter().map(upload).collect::<Result<Vec<Buffer>, _>>()?;
        let form = &mut self.programs.forms[form].train;
        // The state stays where it is if the compiler refuses.
        form.wait()?;
        let entries = self.state.buffers.len();
        let mut inputs = std::mem::take(&mut self.state.buffers);
        inputs.extend(batch.into_iter().chain(scalars));
        self.state.buffers = match form.execute(&inputs) {
            Ok(outputs) => outputs,
            Err(error) => {
                // A step that was refused, for instance for the shape of its batch, has changed nothing.
                inputs.truncate(entries);
                self.state.buffers = inputs;
                return Err(error);
            }
        };
        (self.steps, self.accumulation) = (step, accumulation);
        self.tracked += u64::from(self.tracks);
        let loss = self.state.buffers.pop().expect("the last output is the loss");
        match self.keeps_losses {
            true => self.in_flight.push_numbered(self.steps, loss),
            false => self.in_flight.push(loss),
        }
    }

    /// Makes [`gradients`](Session::gradients) available, for the plan that this session was opened with.
    pub fn watch_gradients(&mut self, plan: &StepPlan, options: &CompileOptions) -> Result<(), TrainError> {
        let (traced, learned) = step::gradients(plan)?;
        self.gradients = Some((SessionProgram::new(&self.backend, traced.program, options), learned));
        Ok(())
    }

    /// Waits, and computes the gradients that a step on this batch would have, by the names of the parameters that learn;
    /// nothing changes. Empty unless they are [watched](Session::watch_gradients).
    pub fn gradients(&mut self, batch: &Batch) -> Result<Vec<(String, HostTensor)>, TrainError> {
        let mut inputs = self.variable_buffers();
        inputs.extend(self.upload_batch(batch)?);
        let key = HostTensor::new([2], &[self.seed as u32, self.steps as u32]).expect("two words");
        inputs.push(self.backend.upload(&key, &self.mesh, &Sharding::REPLICATED)?);
        let Some((program, learned)) = &mut self.gradients else { return Ok(Vec::new()) };
        let outputs = program.execute(&inputs)?;
        let path = |&index: &usize| self.programs.traced.variables[index].path.clone();
        learned.iter().map(path).zip(outputs).map(|(path, buffer)| Ok((path, buffer.to_host()?))).collect()
    }

    /// Makes [`samples`](Session::samples) available, for batches of the plan's size.
    pub fn watch_samples(&mut self, plan: &StepPlan, options: &CompileOptions) -> Result<(), TrainError> {
        let Some((traced, names)) = step::samples(plan)? else { return Ok(()) };
        let reads = evaluated(&self.programs.traced, &traced.variables)?;
        let program = SessionProgram::new(&self.backend, traced.program, options);
        self.samples = Some(Samples { program, names, reads });
        Ok(())
    }

    /// Whether there is anything to show.
    pub fn shows_samples(&self) -> bool {
        self.samples.is_some()
    }

    /// Waits, and returns the task's images that show what was learned, by name. Empty unless they are
    /// [watched](Session::watch_samples).
    pub fn samples(&mut self, batch: &Batch) -> Result<Vec<(&'static str, HostTensor)>, TrainError> {
        let rows = batch.indices.len();
        let uploaded = spread::upload(&*self.backend, &*self.task, &self.mesh, rows, batch)?;
        let Some(Samples { program, names, reads }) = &mut self.samples else { return Ok(Vec::new()) };
        let variables = reads.iter().map(|&entry| self.state.buffers[entry].clone());
        let inputs: Vec<Buffer> = variables.chain(uploaded).collect();
        let columns = program.execute(&inputs)?;
        names.iter().zip(columns).map(|(name, column)| Ok((*name, column.to_host()?))).collect()
    }

    /// The variables themselves, not their averages.
    fn variable_buffers(&self) -> Vec<Buffer> {
        let named = self.programs.traced.entries.iter().zip(&self.state.buffers);
        named.filter(|(entry, _)| matches!(entry.role, Role::Variable(_))).map(|(_, buffer)| buffer.clone()).collect()
    }

    /// Queues one evaluation step on an uploaded batch; returns the predictions that the task's observer needs.
    pub(crate) fn evaluate_uploaded(&mut self, uploaded: Vec<Buffer>) -> Result<Option<Buffer>, TrainError> {
        let mut inputs: Vec<Buffer> = self.evaluated_variables().cloned().collect();
        inputs.push(self.counts.clone());
        inputs.extend(uploaded);
        let mut outputs = self.programs.evaluation.execute(&inputs)?.into_iter();
        self.counts = outputs.next().expect("the first output is the sums");
        self.in_flight.push(outputs.next().expect("the second output is the loss"))?;
        Ok(outputs.next())
    }

    /// Runs the evaluation step on one batch, and forgets what it counted.
    pub fn rehearse_evaluation(&mut self, batch: Batch) -> Result<(), TrainError> {
        let predictions = self.evaluate_uploaded(self.upload_batch(&batch)?)?;
        let mut observation = Observation::of(&*self.task);
        observation.push(batch, predictions)?;
        observation.finish()?;
        self.counts.wait()?;
        self.programs.evaluation.forget_executions();
        self.reset_counts()
    }

    /// Queues one evaluation step.
    pub fn evaluate(&mut self, batch: &Batch) -> Result<(), TrainError> {
        self.evaluate_uploaded(self.upload_batch(batch)?).map(drop)
    }

    /// The buffers of the variables that an evaluation reads.
    fn evaluated_variables(&self) -> impl Iterator<Item = &Buffer> {
        self.programs.evaluated.iter().map(|&entry| &self.state.buffers[entry])
    }

    /// The model's variables without companions, and their values on the host: averages where there are any.
    fn model(&self) -> Result<(Vec<VariableSpec>, Vec<HostTensor>), TrainError> {
        let specs: Vec<VariableSpec> =
            self.programs.traced.variables.iter().filter(|spec| !spec.companion).cloned().collect();
        let entries = evaluated(&self.programs.traced, &specs)?;
        let values = entries.into_iter().map(|entry| self.state.buffers[entry].to_host());
        let values = values.collect::<Result<_, _>>()?;
        Ok((specs, values))
    }

    /// Waits, and copies the variables that are evaluated (averages, where there are any) to the host by path, in the layout
    /// of the device.
    pub fn evaluated(&self) -> Result<Values, TrainError> {
        let (specs, values) = self.model()?;
        Ok(Values::of(&specs, values))
    }

    /// Starts to copy a batch of the usual size to the device: all of its rows, or those of this process.
    pub fn upload_batch(&self, batch: &Batch) -> Result<Vec<Buffer>, TrainError> {
        spread::upload(&*self.backend, &*self.task, &self.mesh, self.batch_sizes[0], batch)
    }

    fn sums(&self) -> Result<Vec<f64>, TrainError> {
        Ok(self.state.buffers.last().expect("the state ends with the sums").to_host()?.to_f64s())
    }

    /// Waits for all queued steps and reads the metrics of everything since the last [`reset`](Session::reset).
    pub fn metrics(&self) -> Result<Vec<Metric>, TrainError> {
        let sums = self.sums()?;
        Ok(self.task.metrics(&sums[..sums.len() - BAD_STEP_SUMS], true))
    }

    /// Waits, and returns how many steps since the last [`reset`](Session::reset) had a loss that is not finite, and the
    /// number of the first one.
    pub fn bad_steps(&self) -> Result<(u64, u64), TrainError> {
        let sums = self.sums()?;
        Ok((sums[sums.len() - 2] as u64, sums[sums.len() - 1] as u64))
    }

    /// Waits, and returns the sums of the evaluation since the last [`reset_counts`](Session::reset_counts).
    pub fn counts(&self) -> Result<Vec<f64>, TrainError> {
        Ok(self.counts.to_host()?.to_f64s())
    }

    /// Begins the sums of training anew.
    pub fn reset(&mut self) -> Result<(), TrainError> {
        let sums = self.backend.upload(
            &zeros(self.programs.traced.sums + BAD_STEP_SUMS),
            &self.mesh,
            &Sharding::REPLICATED,
        )?;
        *self.state.buffers.last_mut().expect("the state ends with the sums") = sums;
        Ok(())
    }

    /// Begins the sums of evaluation anew.
    pub fn reset_counts(&mut self) -> Result<(), TrainError> {
        self.counts = self.backend.upload(&zeros(self.programs.counted), &self.mesh, &Sharding::REPLICATED)?;
        Ok(())
    }

    /// Waits for all queued steps.
    pub fn wait(&self) -> Result<(), TrainError> {
        self.state.buffers.last().expect("the state ends with the sums").wait()?;
        Ok(self.counts.wait()?)
    }
}

/// The entries that hold some variables of a network as it is evaluated: their averages where there are any.
fn evaluated(traced: &TracedStep, specs: &[VariableSpec]) -> Result<Vec<usize>, TrainError> {
    let by_name: HashMap<&str, usize> =
        traced.entries.iter().enumerate().map(|(index, entry)| (entry.name.as_str(), index)).collect();
    let entry_of = |spec: &VariableSpec| {
        let average = by_name.get(format!("{}#average", spec.path).as_str());
        let missing = || TrainError::Data(format!("{} is read by the evaluation but not by a step", spec.path));
        average.or_else(|| by_name.get(spec.path.as_str())).copied().ok_or_else(missing)
    };
    specs.iter().map(entry_of).collect()
}

/// Programs are compiled for their shapes, once. One that changes later would cost a compilation at every step without a sign
/// of it, so it is an error instead.
fn changed_shape(error: RuntimeError) -> TrainError {
    match error {
        RuntimeError::Argument { name, expected, given, .. } => TrainError::Data(format!(
            "{name} changed from {expected} to {given} after the step was compiled; every batch must have the same \
             shapes, or each would be compiled anew"
        )),
        other => other.into(),
    }
}

/// What the metrics of a validation with that many sums are called.
pub(crate) fn validated_names(task: &dyn Task, sums: usize) -> Vec<String> {
    let of_sums = task.metrics(&vec![0.0; sums], false);
    let of_observer = task.observer().map(|observer| observer.metrics()).unwrap_or_default();
    of_sums.into_iter().chain(of_observer).map(|(name, _)| format!("val_{name}")).collect()
}

fn zeros(count: usize) -> HostTensor {
    full(&Shape::new(DType::F32, [count]), 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evaluator, run::RunPlan};

    /// A server keeps sessions beside each other and moves them between threads.
    #[test]
    fn sessions_plans_and_evaluators_borrowed_their_backend() {
        fn is_owned<T: Send + 'static>() {}
        is_owned::<Session>();
        is_owned::<Evaluator>();
        is_owned::<RunPlan>();
    }
}
