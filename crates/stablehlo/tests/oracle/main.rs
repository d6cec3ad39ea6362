//! Every case of the conformance suite, lowered, run by XLA's CPU implementation and compared with the reference
//! evaluator. Needs a Python with jax; `cargo xtask test` sets one up. OCTANT_ORACLE_CASES=unary/exp limits the cases to
//! those whose names begin so.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod client;
mod parallel;
mod portable;
mod zoo;

use client::{Emitters, Run};
use octant_conformance::{Case, cases, random};
use octant_runtime::Program;
use std::path::Path;

/// The program in the form that GPUs get, without the kernels that only they have.
fn for_gpus(program: Program) -> Program {
    let attention = octant_cuda::GpuAttention::Plain;
    let target = octant_cuda::GpuTarget { kernels: None, fast_products: true, attention };
    Program { graph: octant_cuda::prepare(&program.graph, &target), ..program }
}

/// Runs cases, each changed in its form, and returns those that fail, with what is wrong.
fn failures<'a>(
    python: &Path,
    cases: &[&'a Case],
    form: fn(Run) -> Run,
    emitters: Emitters,
) -> Vec<(&'a Case, String)> {
    let program = |case: &Case| Program::new(case.name.clone(), case.graph.clone());
    let run = |case: &&Case| form(Run::new(program(case), case.inputs.clone()));
    let outcomes = client::run_with(python, &cases.iter().map(run).collect::<Vec<_>>(), emitters);
    let compare = |(case, outcome): (&&'a Case, Result<_, String>)| {
        let problem = outcome.and_then(|given: Vec<_>| case.check(&given)).err()?;
        Some((*case, format!("{}: {problem}", case.name)))
    };
    cases.iter().zip(outcomes).filter_map(compare).collect()
}

/// What fails with the quick emitters, which have faults of their own, is compiled by the usual ones before it counts.
fn check(cases: &[Case], form: fn(Run) -> Run) {
    let Some(python) = client::python() else { return };
    let suspects = failures(&python, &cases.iter().collect::<Vec<_>>(), form, Emitters::Quick);
    let suspects: Vec<&Case> = suspects.into_iter().map(|(case, _)| case).collect();
    if suspects.is_empty() {
        return;
    }
    let problems = failures(&python, &suspects, form, Emitters::Usual);
    let problems: Vec<String> = problems.into_iter().map(|(_, problem)| problem).collect();
    assert!(problems.is_empty(), "{} of {} cases fail:\n{}", problems.len(), cases.len(), problems.join("\n"));
}

#[test]
fn every_case_means_the_same_to_xla() {
    let wanted = std::env::var("OCTANT_ORACLE_CASES").unwrap_or_default();
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| case.name.starts_with(&wanted)).collect();
    check(&cases, |run| run);
}

#[test]
fn random_graphs_mean_the_same_to_xla() {
    check(&random::graphs(150), |run| run);
}

/// Convolutions as products, small products as sums, unpooling by comparisons, reductions in steps.
#[test]
fn the_forms_that_gpus_get_mean_the_same_to_xla() {
    let contains = |case: &Case| {
        ["conv", "dot", "pool", "scatter", "reduce/sum", "reduce/max"].iter().any(|part| case.name.contains(part))
    };
    // What stays as it is was run above.
    let text = |program: Program| octant_stablehlo::lower(&program, &Default::default()).unwrap();
    let changes = |case: &Case| {
        let program = Program::new(case.name.clone(), case.graph.clone());
        text(for_gpus(program.clone())) != text(program)
    };
    let cases: Vec<Case> = cases::all().into_iter().filter(contains).filter(changes).collect();
    assert!(cases.len() > 10, "{} cases have another form", cases.len());
    check(&cases, |run| Run { program: for_gpus(run.program), ..run });
}
