//! Portable artifacts: the same programs as the text, for every case of the conformance suite.

use crate::client::{self, Run};
use octant_conformance::{Case, cases, random};
use octant_runtime::Program;
use octant_stablehlo::{LowerError, LoweringOptions, MatmulPrecision, lower, portable};
use std::path::Path;
use std::process::Command;

const PRECISION: MatmulPrecision = MatmulPrecision::Highest;

fn program(case: &Case) -> Program {
    Program::new(case.name.clone(), case.graph.clone())
}

/// The cases that have a portable form: all but those with the error function of f64.
fn exportable(cases: Vec<Case>) -> Vec<Case> {
    let is_portable = |case: &Case| match portable(&program(case), PRECISION, &[]) {
        Ok(_) => true,
        Err(LowerError::NotPortable { what, .. }) if what == "the error function of f64" => false,
        Err(other) => panic!("{}: {other}", case.name),
    };
    cases.into_iter().filter(is_portable).collect()
}

#[test]
fn an_artifact_was_another_program_than_the_text() {
    let Some(python) = client::python() else { return };
    let cases = exportable(cases::all().into_iter().chain(random::graphs(150)).collect());
    let folder = tempfile::tempdir().unwrap();
    for (i, case) in cases.iter().enumerate() {
        let options = LoweringOptions { precision: PRECISION, ..LoweringOptions::default() };
        std::fs::write(folder.path().join(format!("{i}.mlir")), lower(&program(case), &options).unwrap()).unwrap();
        let bytes = portable(&program(case), PRECISION, &[]).unwrap();
        std::fs::write(folder.path().join(format!("{i}.mlirbc")), bytes).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle/same.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let problems: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, outcome)| *outcome != "same")
        .map(|(i, outcome)| format!("{}: {outcome}", cases[i.parse::<usize>().unwrap()].name))
        .collect();
    assert_eq!(text.lines().count(), cases.len());
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), cases.len(), problems.join("\n"));
}

/// That all of them are the same programs was tested above; some of every kind are run.
#[test]
fn artifacts_mean_the_same_to_xla() {
    let cases: Vec<Case> = exportable(cases::all()).into_iter().step_by(8).collect();
    crate::check(&cases, |run| Run { portable: true, ..run });
}
