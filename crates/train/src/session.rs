//! A compiled step with its state: what a training loop drives.

use crate::state::zero_sums;
use crate::step::{self, StepPlan, TracedStep};
use crate::{Metric, State, Task, TrainError};
use octant_data::Batch;
use octant_graph::HostTensor;
use octant_nn::VariableSpec;
use octant_runtime::{Backend, Buffer, CompileOptions, Cost, Executable, MemoryPlan, Mesh, Sharding};

/// One network being trained on one backend.
pub struct Session<'a> {
    backend: &'a dyn Backend,
    task: &'a dyn Task,
    mesh: Mesh,
    seed: u64,
    traced: TracedStep,
    train: Box<dyn Executable>,
    evaluate: Box<dyn Executable>,
    state: State,
    steps: u64,
}

impl<'a> Session<'a> {
    /// Traces and compiles the training and the evaluation step and initialises the state from the seed.
    pub fn new(
        backend: &'a dyn Backend,
        plan: &StepPlan<'a>,
        options: &CompileOptions,
        seed: u64,
    ) -> Result<Session<'a>, TrainError> {
        let traced = step::training(plan)?;
        let train = backend.compile(&traced.program, options)?;
        let evaluate = backend.compile(&step::evaluation(plan)?.program, options)?;
        let state = State::new(backend, &plan.mesh, &traced, plan.task.sums(), |spec| spec.initial(seed))?;
        let (task, mesh) = (plan.task, plan.mesh.clone());
        Ok(Session { backend, task, mesh, seed, traced, train, evaluate, state, steps: 0 })
    }

    /// Queues one step of learning; returns before it has run.
    pub fn train(&mut self, batch: &Batch, rate: f64) -> Result<(), TrainError> {
        let batch = self.upload_batch(batch)?;
        self.steps += 1;
        // The step's key: dropout differs at every step and is the same after a resume.
        let key = [self.seed as u32, self.steps as u32];
        let scalars = [
            HostTensor::scalar(rate as f32),
            HostTensor::scalar(self.steps as f32),
            HostTensor::new([2], &key).expect("two words"),
        ];
        let state = &mut self.state;
        let mut inputs: Vec<Buffer> = state.variables.drain(..).chain(state.slots.drain(..)).collect();
        inputs.push(state.sums.clone());
        inputs.extend(batch);
        for scalar in &scalars {
            inputs.push(self.backend.upload(scalar, &self.mesh, &Sharding::Replicated)?);
        }
        let mut outputs = self.train.execute(&inputs)?.into_iter();
        drop(inputs);
        state.variables = outputs.by_ref().take(self.traced.variables.len()).collect();
        state.slots = outputs.by_ref().take(self.traced.slots.len()).collect();
        state.sums = outputs.next().expect("the step's last output is the sums");
        Ok(())
    }

    /// Queues one step of counting.
    pub fn evaluate(&mut self, batch: &Batch) -> Result<(), TrainError> {
        let batch = self.upload_batch(batch)?;
        let mut inputs = self.state.variables.clone();
        inputs.push(self.state.sums.clone());
        inputs.extend(batch);
        let mut outputs = self.evaluate.execute(&inputs)?;
        self.state.sums = outputs.remove(0);
        Ok(())
    }

    fn upload_batch(&self, batch: &Batch) -> Result<Vec<Buffer>, TrainError> {
        let sharding = if self.mesh.devices() > 1 { Sharding::Split { axis: 0 } } else { Sharding::Replicated };
        let tensors = self.task.batch_tensors(batch)?;
        let buffers: Result<Vec<Buffer>, _> =
            tensors.iter().map(|tensor| self.backend.upload(tensor, &self.mesh, &sharding)).collect();
        Ok(buffers?)
    }

    /// Waits for all queued steps and reads the metrics of everything since the last [`reset`](Session::reset).
    pub fn metrics(&self) -> Result<Vec<Metric>, TrainError> {
        Ok(self.task.metrics(&self.state.sums.to_host()?.to_f64s()))
    }

    /// Begins the sums anew.
    pub fn reset(&mut self) -> Result<(), TrainError> {
        self.state.sums = self.backend.upload(&zero_sums(self.task.sums()), &self.mesh, &Sharding::Replicated)?;
        Ok(())
    }

    /// Waits for all queued steps.
    pub fn wait(&self) -> Result<(), TrainError> {
        Ok(self.state.sums.wait()?)
    }

    /// Steps of learning so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The model's variables.
    pub fn variables(&self) -> &[VariableSpec] {
        &self.traced.variables
    }

    /// Waits, and copies the variables to the host with the reference's names and layouts.
    pub fn weights(&self) -> Result<Vec<(String, HostTensor)>, TrainError> {
        crate::export(&self.traced.variables, &self.state.variables)
    }

    /// Memory and work of one training step.
    pub fn cost(&self) -> (MemoryPlan, Cost) {
        (self.train.memory(), self.train.cost())
    }
}
