//! What runs the programs: the reference evaluator, where a program is small, and the CPU backend, both in f32 and in double
//! precision.

use crate::wide::{wide_tensor, widened};
use octant_cpu::CpuBackend;
use octant_graph::evaluate::evaluate;
use octant_graph::{Graph, HostTensor};
use octant_runtime::{Backend, CompileOptions, Mesh, Program, Sharding};

/// What runs a program.
#[derive(Clone, Copy, PartialEq)]
pub enum Engine {
    /// The reference evaluator.
    Reference,
    /// The reference evaluator in double precision.
    WideReference,
    /// The CPU backend.
    Cpu,
    /// The CPU backend in double precision.
    WideCpu,
}

impl Engine {
    /// The outputs of a graph.
    pub fn run(self, graph: &Graph, inputs: &[HostTensor]) -> Vec<HostTensor> {
        match self {
            Engine::Reference => evaluate(graph, inputs).unwrap(),
            Engine::WideReference => {
                let inputs: Vec<HostTensor> = inputs.iter().map(wide_tensor).collect();
                evaluate(&widened(graph), &inputs).unwrap()
            }
            Engine::Cpu => run_on_cpu(graph, inputs),
            Engine::WideCpu => {
                let inputs: Vec<HostTensor> = inputs.iter().map(wide_tensor).collect();
                run_on_cpu(&widened(graph), &inputs)
            }
        }
    }
}

fn run_on_cpu(graph: &Graph, inputs: &[HostTensor]) -> Vec<HostTensor> {
    let backend = CpuBackend::new().unwrap();
    let program = Program::new("golden", graph.clone());
    let executable = backend.compile(&program, &CompileOptions::default()).unwrap();
    let upload = |tensor: &HostTensor| backend.upload(tensor, &Mesh::single(), &Sharding::REPLICATED).unwrap();
    let outputs = executable.execute(&inputs.iter().map(upload).collect::<Vec<_>>()).unwrap();
    outputs.iter().map(|output| output.to_host().unwrap()).collect()
}
