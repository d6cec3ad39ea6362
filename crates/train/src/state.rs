//! The state: everything that lives between steps, on the device.

use crate::TrainError;
use crate::step::TracedStep;
use octant_archive::Archive;
use octant_graph::{DType, HostTensor, Shape};
use octant_nn::VariableSpec;
use octant_runtime::{Backend, Buffer, Mesh, Sharding};

/// Variables, optimizer slots and sums of one run.
pub struct State {
    /// The model's variables, in the step's order.
    pub variables: Vec<Buffer>,
    /// The optimizer's slots, in the step's order.
    pub slots: Vec<Buffer>,
    /// Running sums of the task.
    pub sums: Buffer,
}

impl State {
    /// The state before the first step; `initial` gives every variable its value.
    pub fn new(
        backend: &dyn Backend,
        mesh: &Mesh,
        step: &TracedStep,
        sums: usize,
        initial: impl Fn(&VariableSpec) -> HostTensor,
    ) -> Result<State, TrainError> {
        let upload = |tensor: &HostTensor| backend.upload(tensor, mesh, &Sharding::Replicated);
        let variables: Result<Vec<Buffer>, _> = step.variables.iter().map(|spec| upload(&initial(spec))).collect();
        let slots: Result<Vec<Buffer>, _> = step
            .slots
            .iter()
            .map(|&(variable, _, value)| {
                let shape = step.variables[variable].shape.clone();
                let values = vec![value; shape.elements()];
                upload(&HostTensor::from_f64s(shape, &values).expect("one value per element"))
            })
            .collect();
        Ok(State { variables: variables?, slots: slots?, sums: upload(&zero_sums(sums))? })
    }
}

/// Sums over nothing.
pub fn zero_sums(count: usize) -> HostTensor {
    HostTensor::zeros(Shape::new(DType::F32, [count]))
}

/// The variables as the reference implementation would save them: its names, its layouts.
pub fn export(specs: &[VariableSpec], variables: &[Buffer]) -> Result<Vec<(String, HostTensor)>, TrainError> {
    specs
        .iter()
        .zip(variables)
        .map(|(spec, buffer)| {
            let tensor = buffer.to_host()?;
            let tensor = spec.border.export(&tensor).ok_or_else(|| other_shape(spec, tensor.shape()))?;
            Ok((spec.path.clone(), tensor))
        })
        .collect()
}

/// One variable out of a file with the reference's names and layouts.
pub fn import(spec: &VariableSpec, archive: &Archive) -> Result<HostTensor, TrainError> {
    let missing = || TrainError::Data(format!("the file has no {}", spec.path));
    let tensor = archive.get(&spec.path).ok_or_else(missing)?;
    spec.border.import(tensor, spec.shape.dims()).ok_or_else(|| other_shape(spec, tensor.shape()))
}

fn other_shape(spec: &VariableSpec, found: &Shape) -> TrainError {
    let wanted = spec.reference_dims();
    TrainError::Data(format!("{} should have the dimensions {wanted:?}, the file has {found}", spec.path))
}
