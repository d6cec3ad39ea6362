//! The state: everything that lives between steps, on the device.

use crate::step::{Role, TracedStep};
use crate::{TrainError, Values};
use octant_archive::Archive;
use octant_graph::{HostTensor, Shape};
use octant_nn::VariableSpec;
use octant_runtime::{Backend, Buffer};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The state of one run, in the order of the step's inputs.
pub struct State {
    /// One buffer per entry of the step.
    pub buffers: Vec<Buffer>,
}

impl State {
    /// The state before the first step. Entries that `known` has start from there, variables otherwise from `initial`,
    /// averages from their variable.
    pub fn new(
        backend: &dyn Backend,
        TracedStep { program, entries, variables, .. }: &TracedStep,
        known: &Values,
        initial: impl Fn(&VariableSpec) -> HostTensor + Sync,
    ) -> Result<State, TrainError> {
        let first = first_values(variables, |spec| known.get(&spec.path).cloned().unwrap_or_else(|| initial(spec)));
        let buffers = entries.iter().zip(&program.inputs).map(|(entry, sharding)| {
            let value = match (known.get(&entry.name), entry.role) {
                (Some(value), _) if value.shape() == &entry.shape => value.clone(),
                (Some(value), _) => return Err(other_shape(&entry.name, entry.shape.dims(), value.shape())),
                (None, Role::Variable(index) | Role::Average(index)) => first[index].clone(),
                (None, Role::Slot | Role::Gradient | Role::Sums) => full(&entry.shape, entry.initial),
            };
            Ok(backend.upload(&value, &program.mesh, sharding)?)
        });
        Ok(State { buffers: buffers.collect::<Result<_, TrainError>>()? })
    }

    /// Replaces variables, and their averages with them; everything else stays as it is.
    pub fn set(
        &mut self,
        backend: &dyn Backend,
        TracedStep { program, entries, variables, .. }: &TracedStep,
        values: &Values,
    ) -> Result<(), TrainError> {
        for ((entry, sharding), buffer) in entries.iter().zip(&program.inputs).zip(&mut self.buffers) {
            if let Role::Variable(index) | Role::Average(index) = entry.role
                && let Some(value) = values.get(&variables[index].path)
            {
                *buffer = backend.upload(value, &program.mesh, sharding)?;
            }
        }
        Ok(())
    }
}

/// The initial values of all variables, computed on all cores: a large network has a hundred million numbers.
fn first_values(variables: &[VariableSpec], value: impl Fn(&VariableSpec) -> HostTensor + Sync) -> Vec<HostTensor> {
    let next = AtomicUsize::new(0);
    let draw = || {
        let claims = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        let mine = claims.map_while(|index| Some((index, value(variables.get(index)?))));
        mine.collect::<Vec<_>>()
    };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let mut initialized: Vec<(usize, HostTensor)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(draw)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("drawing numbers does not fail")).collect()
    });
    initialized.sort_by_key(|(index, _)| *index);
    initialized.into_iter().map(|(_, value)| value).collect()
}

/// A tensor of one value.
pub(crate) fn full(shape: &Shape, value: f64) -> HostTensor {
    if value == 0.0 {
        return HostTensor::zeros(shape.clone());
    }
    HostTensor::from_f64s(shape.clone(), &vec![value; shape.elements()]).expect("one value per element")
}

/// One variable out of a file with the reference's names and layouts.
pub fn import(spec: &VariableSpec, archive: &Archive) -> Result<HostTensor, TrainError> {
    let missing = || TrainError::Data(format!("the file has no {}; it belongs to another model", spec.path));
    let tensor = archive.get(&spec.path).ok_or_else(missing)?;
    let imported = spec.layout.import(tensor, spec.shape.dims());
    imported.ok_or_else(|| other_shape(&spec.path, &spec.reference_dims(), tensor.shape()))
}

fn other_shape(name: &str, wanted: &[usize], found: &Shape) -> TrainError {
    TrainError::Data(format!(
        "{name} should have the dimensions {wanted:?}, the file has {found}; it belongs to another model"
    ))
}
