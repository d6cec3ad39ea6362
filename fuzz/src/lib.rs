//! Fuzzing of the readers, with `cargo +nightly fuzz run pickle` (or `torch`, `safetensors`, `npy`).
//!
//! What a target does with its bytes stands in [`targets`]. `crates/archive/tests/smoke_fuzz.rs` calls the same
//! functions with blindly mutated golden files, so that every test run on a stable compiler fuzzes a little; set
//! `OCTANT_FUZZ_SECONDS=600` to let it go on for ten minutes per target.
//!
//! A good corpus to begin with are the golden files: `cargo +nightly fuzz run torch fuzz/corpus/torch crates/archive/golden`.

pub mod targets;
