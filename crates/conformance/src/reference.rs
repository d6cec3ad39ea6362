//! The reference evaluator as a backend: the simplest thing that keeps the runtime's promises.

use octant_graph::evaluate::{EvaluateError, evaluate};
use octant_runtime::{
    Backend, Buffer, CompileOptions, Cost, Device, DeviceBuffer, Executable, HostTensor, MemoryPlan, MemoryUse, Mesh,
    Program, Result, RuntimeError, Shape, Sharding,
};
use std::sync::{Mutex, PoisonError};

/// Runs every program with the reference evaluator.
#[derive(Debug, Default, Clone, Copy)]
pub struct ReferenceBackend;

impl Backend for ReferenceBackend {
    fn name(&self) -> &str {
        "reference"
    }

    fn devices(&self) -> Vec<Device> {
        vec![Device { id: 0, kind: "evaluator".into(), description: "slow and plain".into() }]
    }

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Box<dyn Executable>> {
        if program.mesh.devices() > 1 {
            return Err(self.unsupported("more than one device"));
        }
        Ok(Box::new(Evaluation { program: program.clone() }))
    }

    fn upload(&self, tensor: &HostTensor, _: &Mesh, _: &Sharding) -> Result<Buffer> {
        Ok(held(tensor.clone()))
    }

    fn memory(&self) -> Result<Vec<MemoryUse>> {
        Err(self.unsupported("memory statistics"))
    }
}

impl ReferenceBackend {
    fn unsupported(&self, what: &str) -> RuntimeError {
        RuntimeError::Unsupported { backend: self.name().into(), what: what.into() }
    }
}

/// A tensor that is there, until it is donated.
struct Held {
    shape: Shape,
    tensor: Mutex<Option<HostTensor>>,
}

fn held(tensor: HostTensor) -> Buffer {
    Buffer::new(Held { shape: tensor.shape().clone(), tensor: Mutex::new(Some(tensor)) })
}

impl DeviceBuffer for Held {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn to_host(&self) -> Result<HostTensor> {
        self.tensor.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(RuntimeError::Donated)
    }

    fn wait(&self) -> Result<()> {
        self.to_host().map(drop)
    }
}

struct Evaluation {
    program: Program,
}

impl Executable for Evaluation {
    fn execute(&self, inputs: &[Buffer]) -> Result<Vec<Buffer>> {
        let tensors = inputs.iter().map(Buffer::to_host).collect::<Result<Vec<_>>>()?;
        let outputs = evaluate(&self.program.graph, &tensors).map_err(as_runtime_error)?;
        for &(input, _) in &self.program.donated {
            if let Some(donated) = inputs[input].downcast::<Held>() {
                *donated.tensor.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
        Ok(outputs.into_iter().map(held).collect())
    }

    fn memory(&self) -> MemoryPlan {
        let bytes = |shapes: Vec<Shape>| shapes.iter().map(|shape| shape.bytes() as u64).sum();
        MemoryPlan { inputs: bytes(self.program.graph.input_shapes()), ..MemoryPlan::default() }
    }

    fn cost(&self) -> Cost {
        Cost::default()
    }
}

fn as_runtime_error(error: EvaluateError) -> RuntimeError {
    match error {
        EvaluateError::InputCount { expected, given } => RuntimeError::ArgumentCount { expected, given },
        EvaluateError::Input { index, name, expected, given } => {
            RuntimeError::Argument { index, name, expected, given }
        }
        EvaluateError::Bound { .. } => RuntimeError::Device(error.to_string()),
    }
}
