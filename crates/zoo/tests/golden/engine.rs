//! What runs the programs: the reference evaluator for small networks, the CPU backend for real ones.

use octant_cpu::CpuBackend;
use octant_graph::evaluate::evaluate;
use octant_graph::{Graph, HostTensor};
use octant_runtime::{Backend, CompileOptions, Mesh, Program, Sharding};

pub enum Engine {
    Reference,
    Cpu,
}

impl Engine {
    pub fn run(&self, graph: &Graph, inputs: &[HostTensor]) -> Vec<HostTensor> {
        match self {
            Engine::Reference => evaluate(graph, inputs).unwrap(),
            Engine::Cpu => run_on_cpu(graph, inputs),
        }
    }
}

fn run_on_cpu(graph: &Graph, inputs: &[HostTensor]) -> Vec<HostTensor> {
    let backend = CpuBackend::new().unwrap();
    let program = Program::new("golden", graph.clone());
    let executable = backend.compile(&program, &CompileOptions::default()).unwrap();
    let upload = |tensor: &HostTensor| backend.upload(tensor, &Mesh::single(), &Sharding::Replicated).unwrap();
    let outputs = executable.execute(&inputs.iter().map(upload).collect::<Vec<_>>()).unwrap();
    outputs.iter().map(|output| output.to_host().unwrap()).collect()
}
