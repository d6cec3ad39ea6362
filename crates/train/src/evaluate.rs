//! Using a network without training it.

use crate::in_flight::{Ahead, InFlight, Observation};
use crate::options::nearest;
use crate::step::{self, StepPlan, TracedStep};
use crate::values::Values;
use crate::{Findings, Metric, Observer, Task, TrainError, spread};
use octant_data::{Batch, DataError};
use octant_graph::{DType, HostTensor, Shape};
use octant_runtime::{Backend, Buffer, CompileOptions, Executable, Mesh, Sharding};
use std::sync::Arc;

/// A network that counts.
pub struct Evaluator {
    backend: Arc<dyn Backend>,
    task: Arc<dyn Task>,
    mesh: Mesh,
    batch_size: usize,
    program: Box<dyn Executable>,
    variables: Vec<Buffer>,
    sums: usize,
}

impl Evaluator {
    /// Compiles the evaluation step; `values` has every variable by path, in the layout of the device.
    pub fn new(
        backend: &Arc<dyn Backend>,
        plan: &StepPlan,
        options: &CompileOptions,
        values: &Values,
    ) -> Result<Evaluator, TrainError> {
        let traced = step::evaluation(plan)?;
        let program = backend.compile(&traced.program, options)?;
        let variables = upload(&**backend, &plan.mesh, &traced, values)?;
        let (backend, task, mesh) = (backend.clone(), plan.task.clone(), plan.mesh.clone());
        let batch_size = plan.step.batch_size;
        Ok(Evaluator { backend, task, mesh, batch_size, program, variables, sums: traced.sums })
    }

    /// The metrics over all batches, and what can be plotted of them.
    pub fn run(
        &self,
        batches: impl Iterator<Item = Result<Batch, DataError>>,
    ) -> Result<(Vec<Metric>, Findings), TrainError> {
        let (metrics, findings, _) = self.run_observed(batches)?;
        Ok((metrics, findings))
    }

    /// The same, with the observer that saw every prediction, where the task has one.
    #[allow(clippy::type_complexity, reason = "three results that are taken apart at once")]
    pub fn run_observed(
        &self,
        mut batches: impl Iterator<Item = Result<Batch, DataError>>,
    ) -> Result<(Vec<Metric>, Findings, Option<Box<dyn Observer>>), TrainError> {
        let zeros = HostTensor::zeros(Shape::new(DType::F32, [self.sums]));
        let mut sums = self.backend.upload(&zeros, &self.mesh, &Sharding::REPLICATED)?;
        let mut observation = Observation::of(&*self.task);
        let (mut ahead, mut in_flight) = (Ahead::default(), InFlight::default());
        let mut upload = || {
            batches.next().map(|batch| {
                let batch = batch?;
                Ok((spread::upload(&*self.backend, &*self.task, &self.mesh, self.batch_size, &batch)?, batch))
            })
        };
        while let Some(next) = ahead.next(&mut upload) {
            let (uploaded, batch) = next?;
            let mut inputs = self.variables.clone();
            inputs.push(sums);
            inputs.extend(uploaded);
            let mut outputs = self.program.execute(&inputs)?.into_iter();
            sums = outputs.next().expect("the first output is the sums");
            in_flight.push(outputs.next().expect("the second output is the loss"))?;
            observation.push(batch, outputs.next())?;
        }
        let observer = observation.finish()?;
        let sums = sums.to_host()?.to_f64s();
        let mut metrics = self.task.metrics(&sums, false);
        metrics.extend(observer.iter().flat_map(|observer| observer.metrics()));
        let seen = observer.as_ref().map(|observer| observer.findings()).unwrap_or_default();
        Ok((metrics, self.task.findings(&sums).or(seen), observer))
    }
}

/// A network that predicts.
pub struct Predictor {
    backend: Arc<dyn Backend>,
    program: Box<dyn Executable>,
    variables: Vec<Buffer>,
}

impl Predictor {
    /// Compiles what the task makes of images alone, in batches of the plan's size.
    pub fn new(
        backend: &Arc<dyn Backend>,
        plan: &StepPlan,
        options: &CompileOptions,
        values: &Values,
    ) -> Result<Predictor, TrainError> {
        let traced = step::prediction(plan)?;
        let program = backend.compile(&traced.program, options)?;
        let variables = upload(&**backend, &Mesh::single(), &traced, values)?;
        Ok(Predictor { backend: backend.clone(), program, variables })
    }

    /// What the network makes of a batch of images.
    pub fn predict(&self, images: &HostTensor) -> Result<HostTensor, TrainError> {
        let mut inputs = self.variables.clone();
        inputs.push(self.backend.upload(images, &Mesh::single(), &Sharding::REPLICATED)?);
        let outputs = self.program.execute(&inputs)?;
        Ok(outputs.first().expect("a prediction has one output").to_host()?)
    }
}

fn upload(backend: &dyn Backend, mesh: &Mesh, traced: &TracedStep, values: &Values) -> Result<Vec<Buffer>, TrainError> {
    let variable = |(path, sharding): (&String, &Sharding)| {
        let missing = || {
            let near = nearest(path, values.keys().map(String::as_str));
            let hint = near.map_or("they belong to another model".into(), |name| format!("the nearest name is {name}"));
            TrainError::Data(format!("the weights have no {path}; {hint}"))
        };
        Ok(backend.upload(values.get(path).ok_or_else(missing)?, mesh, sharding)?)
    };
    traced.variables.iter().map(|spec| &spec.path).zip(&traced.program.inputs).map(variable).collect()
}
