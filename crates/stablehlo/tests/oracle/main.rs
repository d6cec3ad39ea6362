//! Every case of the conformance suite, lowered, run by XLA's CPU implementation and compared with the reference
//! evaluator. Needs a Python with jax; `cargo xtask test` sets one up. OCTANT_ORACLE_CASES=unary/exp limits the cases to
//! those whose names begin so.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod client;
mod parallel;
mod zoo;

use client::Run;
use octant_conformance::{Case, cases, random};
use octant_runtime::Program;

/// The program in the form that GPUs get, without the kernels that only they have.
fn for_gpus(program: Program) -> Program {
    let attention = octant_cuda::GpuAttention::Plain;
    let gpu = octant_cuda::GpuFacts::H200;
    let target = octant_cuda::GpuTarget { gpu, kernels: false, fast_products: true, attention };
    Program { graph: octant_cuda::prepare(&program.graph, &program.donated, &target), ..program }
}

/// Runs cases, each changed in its form, and returns what is wrong with them.
fn failures(python: &std::path::Path, cases: &[Case], form: fn(Program) -> Program) -> Vec<String> {
    let run = |case: &Case| Run::new(form(Program::new(case.name.clone(), case.graph.clone())), case.inputs.clone());
    let outcomes = client::run(python, &cases.iter().map(run).collect::<Vec<_>>());
    let judge = |(case, outcome): (&Case, Result<_, String>)| {
        let problem = outcome.and_then(|given: Vec<_>| case.check(&given)).err()?;
        Some(format!("{}: {problem}", case.name))
    };
    cases.iter().zip(outcomes).filter_map(judge).collect()
}

fn check(cases: &[Case], form: fn(Program) -> Program) {
    let python = match client::python() {
        Ok(python) => python,
        Err(skipped) => return println!("{skipped}"),
    };
    let failures = failures(&python, cases, form);
    assert!(failures.is_empty(), "{} of {} cases fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn every_case_means_the_same_to_xla() {
    let wanted = std::env::var("OCTANT_ORACLE_CASES").unwrap_or_default();
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| case.name.starts_with(&wanted)).collect();
    check(&cases, |program| program);
}

#[test]
fn random_graphs_mean_the_same_to_xla() {
    check(&random::graphs(150), |program| program);
}

/// Convolutions as products, small products as sums, unpooling by comparisons, reductions in steps.
#[test]
fn the_forms_that_gpus_get_mean_the_same_to_xla() {
    let contains = |case: &Case| {
        ["conv", "dot", "pool", "scatter", "reduce/sum", "reduce/max"].iter().any(|part| case.name.contains(part))
    };
    let cases: Vec<Case> = cases::all().into_iter().filter(contains).collect();
    check(&cases, for_gpus);
}
