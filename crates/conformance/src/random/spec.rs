//! A list of numbers, and the graph that it stands for.

use super::generator::{GraphGenerator, Tracked};
use super::steps;
use crate::{Case, Tolerance, tolerance::epsilon, values};
use octant_graph::{DType, Graph, HostTensor, Tensor, Trace};

/// The numbers that a random graph is generated from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphSpec {
    /// The float type that most values have.
    pub(super) float: u8,
    /// Lengths of axes.
    pub(super) lengths: [u8; 3],
    /// One operation each.
    pub(super) steps: Vec<Step>,
}

/// One operation: which, on what, how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub kind: u8,
    /// Which of the values so far.
    pub picks: [u8; 2],
    /// Whatever else the operation has to choose.
    pub choice: u16,
}

impl GraphSpec {
    /// The graph of this spec with inputs for it.
    pub fn generate(&self) -> Case {
        let float = [DType::F32, DType::F32, DType::BF16, DType::F16, DType::F64][self.float as usize % 5];
        let inputs = self.inputs(float);
        let trace = Trace::new();
        let named = |(i, input): (usize, &HostTensor)| trace.input(&format!("x{i}"), input.shape().clone());
        let symbols: Vec<Tensor> = inputs.iter().enumerate().map(named).collect();
        let values = symbols.into_iter().map(Tracked::exact).collect();
        let mut generator = GraphGenerator { trace: trace.clone(), values, float };
        for Step { kind, picks, choice } in &self.steps {
            steps::apply(&mut generator, *kind as usize, *picks, *choice as usize);
        }
        finish(generator, inputs)
    }

    /// Numbers that every type holds exactly, so that decisions can be made on them.
    fn inputs(&self, float: DType) -> Vec<HostTensor> {
        // Mostly 1 to 6, now and then nothing at all.
        let [a, b, c] = self.lengths.map(|length| if length == 255 { 0 } else { 1 + length as usize % 6 });
        let quarters = |dims: &[usize]| {
            let whole = values::between(-8.0, 8.0, DType::I32, dims).to_f64s();
            values::tensor(float, dims, &whole.iter().map(|value| value / 4.0).collect::<Vec<_>>())
        };
        vec![
            values::ordinary(DType::Bool, &[a, b]),
            values::ordinary(DType::I32, &[b, c]),
            quarters(&[c]),
            quarters(&[a, b, c]),
            quarters(&[a, b]),
        ]
    }
}

/// The last few values are the outputs.
fn finish(generator: GraphGenerator, inputs: Vec<HostTensor>) -> Case {
    let outputs: Vec<Tracked> = generator.values.iter().rev().take(4).cloned().collect();
    let tensors: Vec<Tensor> = outputs.iter().map(|output| output.tensor.clone()).collect();
    let tolerances = outputs.iter().map(bound).collect();
    let graph: Graph = generator.trace.finish(&tensors).expect("every step makes well-typed values");
    Case { name: "random".into(), graph, inputs, tolerances, known: None }
}

fn bound(output: &Tracked) -> Tolerance {
    match output.error == 0.0 || !output.tensor.dtype().is_float() {
        true => Tolerance::EXACT,
        false => Tolerance { roundings: 1.0, scale: 2.0 * output.error / epsilon(output.tensor.dtype()), terms: 0.0 },
    }
}
