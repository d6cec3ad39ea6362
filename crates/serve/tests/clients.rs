//! Clients of others, unchanged. Needs a Python with tritonclient; `cargo xtask test` sets one up.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use crate::support::*;
use octant_predict::Output;
use std::process::Command;

#[test]
fn tritonclient_works_unchanged_over_http_and_grpc() {
    let Some(python) = std::env::var_os("OCTANT_ORACLE_PYTHON") else {
        return eprintln!("SKIPPED: OCTANT_ORACLE_PYTHON names no Python with tritonclient");
    };
    let device = cpu();
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &device, options());
    let predictor = predictor("resnet-tiny", 3, &device);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let (numbers, image) = (numbers(2, 8), image(41, 33, 5));
    write("images.f32", &bytes_of(&numbers));
    write("logits.f32", &expected(&predictor, 2, &numbers));
    write("image.png", &png(&image));
    let Output::Classes(classes) = predictor.predict([image]).unwrap().swap_remove(0).output else { panic!() };
    write("probabilities.f32", &bytes_of(&classes.scores.iter().map(|&score| score as f32).collect::<Vec<_>>()));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients.py");
    let address = server.endpoint().address.to_string();
    let run = Command::new(python).arg(script).args([&address, "tiny"]).arg(folder.path()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && out.trim_end().ends_with("agreed"), "{out}{err}");
}
