//! The suite on the reference evaluator: the cases themselves, and the suite's own comparison.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use octant_conformance::{Exception, ReferenceBackend, Suite};
use octant_graph::{Binary, Graph, GraphBuilder, Op};
use octant_runtime::{
    Backend, Buffer, CompileOptions, Device, Executable, HostTensor, MemoryUse, Mesh, Program, Result, RuntimeError,
    Sharding,
};
use std::collections::HashMap;

octant_conformance::conformance!(ReferenceBackend);

/// A backend with a mistake: it adds where it should subtract, and refuses to sort.
struct Mistaken;

impl Backend for Mistaken {
    fn name(&self) -> &str {
        "mistaken"
    }
    fn devices(&self) -> Vec<Device> {
        ReferenceBackend.devices()
    }
    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Box<dyn Executable>> {
        if program.graph.nodes().iter().any(|node| matches!(node.op, Op::Sort { .. })) {
            return Err(RuntimeError::Unsupported { backend: "mistaken".into(), what: "sorting".into() });
        }
        let program = Program { graph: with_mistake(&program.graph), ..program.clone() };
        ReferenceBackend.compile(&program, options)
    }
    fn upload(&self, tensor: &HostTensor, mesh: &Mesh, sharding: &Sharding) -> Result<Buffer> {
        ReferenceBackend.upload(tensor, mesh, sharding)
    }
    fn memory(&self) -> Result<Vec<MemoryUse>> {
        ReferenceBackend.memory()
    }
}

fn with_mistake(graph: &Graph) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut renamed = HashMap::new();
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        renamed.insert(input, builder.input(name, graph.shape(input).clone()));
    }
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        let inputs = node.inputs.iter().map(|input| renamed[input]).collect();
        let made = if node.op == Op::Binary(Binary::Sub) {
            builder.push(Op::Binary(Binary::Add), inputs, node.path.clone()).unwrap()
        } else {
            builder.copy(graph, node, inputs)
        };
        renamed.extend(node.outputs.iter().copied().zip(made));
    }
    builder.finish(graph.outputs().iter().map(|output| renamed[output]).collect())
}

#[test]
fn mistakes_are_found_and_named() {
    let report = Suite::new(Mistaken).run_group("binary");
    let names: Vec<&str> = report.failures.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.len() == 12 && names.iter().all(|name| name.starts_with("binary/sub/")), "{report}");
    let random = Suite::new(Mistaken).run_random();
    assert_eq!(random.failures.len(), 1, "random graphs do not notice that subtraction is broken");
}

#[test]
fn exceptions_must_be_refusals() {
    let sort = Exception { cases: "reduce/sort", reason: "cannot sort" };
    assert!(Suite::new(Mistaken).run_group("reduce").failures.len() > 10);
    Suite::new(Mistaken).with_exceptions(&[sort]).run_group("reduce").assert_passed();
    let wrongly_listed = Exception { cases: "binary/add/f32", reason: "thought to be missing" };
    let report = Suite::new(ReferenceBackend).with_exceptions(&[wrongly_listed]).run_group("binary");
    assert!(report.failures.len() == 1 && report.to_string().contains("remove it from the list"), "{report}");
}
