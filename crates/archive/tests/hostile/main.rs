//! Files that mean harm. Each must end in one sentence, quickly, and without allocating much memory.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../forge/mod.rs"]
mod forge;
#[path = "../measured/mod.rs"]
mod measured;

mod files;
mod pickles;
mod tensors;

use forge::{dictionary, integer, safetensors, tensor, tensor_of, text, torch_zip, zip, zip_with};
use octant_archive::pickle::globals::CONTAINERS;
use octant_archive::pickle::{self, Pickle, PickleError, PickleLimits};
use octant_archive::{Archive, ArchiveError};
use octant_tensor::{AlignedBytes, Bytes};
use std::path::Path;

#[global_allocator]
static ALLOCATOR: measured::Counting = measured::Counting;

const MEBI: usize = 1 << 20;

fn open(file: &[u8]) -> Result<Archive, ArchiveError> {
    Archive::from_bytes(Bytes::new(AlignedBytes::copy_of(file)), Path::new("x.pt"))
}

/// Opening fails with one sentence that contains `expected`, and without a large allocation.
fn assert_refused(file: &[u8], expected: &str) {
    let (result, peak) = measured::peak_of(|| open(file));
    let error = result.map(|archive| format!("{archive:?}")).unwrap_err().to_string();
    assert!(error.contains(expected), "expected {expected:?}, got {error:?}");
    assert!(error.starts_with("x.pt cannot be used: ") && error.lines().count() == 1 && error.len() < 600, "{error}");
    assert!(peak < 4 * file.len() + MEBI, "{peak} bytes for a file of {}", file.len());
}

fn parse(code: &[u8]) -> Result<Pickle, PickleError> {
    pickle::parse(&Bytes::new(code.to_vec()), CONTAINERS, PickleLimits::default()).map(|(pickle, _)| pickle)
}
