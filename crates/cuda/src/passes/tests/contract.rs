//! Passes on random graphs: what they make is well formed, means the same, and every call of a kernel in it would be launched.

use super::calls::{SMALL, TARGET, hints};
use crate::passes::{GpuTarget, prepare};
use octant_conformance::{cases, random};
use octant_graph::evaluate::evaluate;
use octant_graph::verify::verify;

/// Checks every case on a large and on a small GPU, with and without our kernels. Returns how many calls there were.
fn check(cases: &[octant_conformance::Case]) -> usize {
    let mut calls = 0;
    for case in cases {
        for target in [TARGET, SMALL, GpuTarget { kernels: None, ..TARGET }] {
            let prepared = prepare(&case.graph, &target);
            verify(&prepared).unwrap_or_else(|error| panic!("{}: {error}\n{}", case.name, case.graph));
            let given = evaluate(&prepared, &case.inputs).unwrap();
            let outcome = case.check(&given);
            assert!(outcome.is_ok(), "{}: {outcome:?}\n{}\n{prepared}", case.name, case.graph);
            calls += hints(&prepared).len();
        }
    }
    calls
}

#[test]
fn random_graphs_mean_the_same_after_all_passes() {
    check(&random::graphs(60));
}

#[test]
fn every_conformance_case_means_the_same_after_all_passes() {
    assert!(check(&cases::all()) > 20, "some cases have work for our kernels");
}
