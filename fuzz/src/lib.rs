//! Fuzzing of the readers, with `cargo +nightly fuzz run pickle` (or `torch`, `safetensors`, `npy`; `idx`, `tfrecord`,
//! `cifar`, `lists`, `shards`; `events`; `jpeg`, `png`, `bmp`, `webp`, `tiff`).
//!
//! What a target does with its bytes stands in [`targets`] and [`data`]. `crates/archive/tests/smoke_fuzz.rs` and
//! `crates/events/tests/smoke_fuzz.rs` call the same functions with blindly mutated files ([`mutation`]), so that every test
//! run on a stable compiler fuzzes a little; set `OCTANT_FUZZ_SECONDS=600` to let it run for ten minutes per target.
//!
//! A good corpus to begin with are the golden files: `cargo +nightly fuzz run torch fuzz/corpus/torch crates/archive/golden`,
//! or `crates/data/golden` and `crates/data/golden/images` for the readers of data sets.

pub mod data;
pub mod events;
pub mod mutation;
pub mod targets;
