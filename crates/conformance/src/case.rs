//! One case: a graph, what goes in, and how near to the expected results a backend must come.

use crate::Tolerance;
use octant_graph::evaluate::{EvaluateError, evaluate};
use octant_graph::{Graph, HostTensor, Tensor, Trace};
use octant_runtime::RuntimeError;
use std::fmt;

/// A graph with inputs and the results that every backend must reproduce.
#[derive(Debug, Clone)]
pub struct Case {
    /// `group/what/type`, such as `unary/exp/bf16`.
    pub name: String,
    /// What is computed.
    pub graph: Graph,
    /// What it is computed from.
    pub inputs: Vec<HostTensor>,
    /// How near the results must be: one entry per output, the last for all that follow.
    pub tolerances: Vec<Tolerance>,
    /// Results known from elsewhere; otherwise those of the reference evaluator.
    pub known: Option<Vec<HostTensor>>,
}

impl Case {
    /// Traces `build` over the inputs. Panics when the graph is not well typed, which is a mistake in this suite.
    pub fn new(
        name: impl Into<String>,
        inputs: Vec<HostTensor>,
        tolerance: Tolerance,
        build: impl FnOnce(&Trace, &[Tensor]) -> Vec<Tensor>,
    ) -> Case {
        let name = name.into();
        match Case::if_typed(name.clone(), inputs, tolerance, build) {
            Ok(case) => case,
            Err(error) => panic!("the case {name} is not well typed: {error}"),
        }
    }

    /// Traces `build` over the inputs; an error when the operation is not defined for their types.
    pub fn if_typed(
        name: impl Into<String>,
        inputs: Vec<HostTensor>,
        tolerance: Tolerance,
        build: impl FnOnce(&Trace, &[Tensor]) -> Vec<Tensor>,
    ) -> Result<Case, octant_graph::GraphError> {
        let trace = Trace::new();
        let named = |(i, input): (usize, &HostTensor)| trace.input(&format!("x{i}"), input.shape().clone());
        let symbols: Vec<Tensor> = inputs.iter().enumerate().map(named).collect();
        let outputs = build(&trace, &symbols);
        let graph = trace.finish(&outputs)?;
        Ok(Case { name: name.into(), graph, inputs, tolerances: vec![tolerance], known: None })
    }

    /// The same case with results known from elsewhere.
    pub fn with_known(mut self, known: Vec<HostTensor>) -> Case {
        self.known = Some(known);
        self
    }

    /// The first part of the name.
    pub fn group(&self) -> &str {
        self.name.split('/').next().unwrap_or(&self.name)
    }

    /// The right results.
    pub fn expected(&self) -> Result<Vec<HostTensor>, EvaluateError> {
        match &self.known {
            Some(known) => Ok(known.clone()),
            None => evaluate(&self.graph, &self.inputs),
        }
    }

    /// How near an output must be.
    pub fn tolerance(&self, output: usize) -> Tolerance {
        self.tolerances.get(output).or(self.tolerances.last()).copied().unwrap_or(Tolerance::EXACT)
    }

    /// Compares results with the right ones; the error is a sentence about the first that is wrong.
    pub fn check(&self, given: &[HostTensor]) -> Result<(), String> {
        let expected = self.expected().map_err(|error| error.to_string())?;
        if given.len() != expected.len() {
            return Err(format!("{} results instead of {}", given.len(), expected.len()));
        }
        let pairs = given.iter().zip(&expected).enumerate();
        pairs.into_iter().try_for_each(|(output, (given, expected))| {
            self.tolerance(output).check(given, expected).map_err(|problem| format!("output {output}: {problem}"))
        })
    }
}

/// Why a case failed.
#[derive(Debug, Clone)]
pub enum Problem {
    /// The backend returned an error.
    Runtime(RuntimeError),
    /// The backend returned a result, and it is wrong.
    Wrong(String),
}

impl From<RuntimeError> for Problem {
    fn from(error: RuntimeError) -> Problem {
        Problem::Runtime(error)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Problem::Runtime(error) => error.fmt(f),
            Problem::Wrong(sentence) => sentence.fmt(f),
        }
    }
}
