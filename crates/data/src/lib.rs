//! From files to batches: data sets, decoding, transforms, the order of samples, and the loader.
//!
//! A sample depends only on (seed, epoch, index), never on how many
//! workers prepared it, how many cores consume it, or whether the run was stopped in between. Randomness is therefore
//! counter-based ([`SampleRng`]), the order of an epoch is a keyed permutation ([`Permutation`]), and the [`Loader`]
//! delivers batches in order however its workers are scheduled. This crate knows nothing of graphs or devices.
//!
//! Start reading at [`Dataset`], then [`Loader`].

mod archives;
mod balance;
mod cached;
mod classes;
pub mod decode;
pub mod detection;
mod encode;
mod error;
mod glyphs;
mod joined;
mod listing;
mod loader;
mod objects;
mod packed;
pub mod readers;
pub mod report;
mod rng;
mod sample;
mod sampler;
pub mod synth;
pub mod transforms;
mod watched;

pub use archives::Archives;
pub use balance::Balance;
pub use cached::Cached;
pub use classes::{Matched, NAMES_FILE, listed};
pub use encode::{encode_png, encode_png_indexed, write_png, write_png_indexed, write_png_u8};
pub use error::DataError;
pub use glyphs::Glyphs;
pub use joined::Joined;
pub use loader::{Batch, Batches, Corrupt, Loader, LoaderConfig, LoaderStats, MASK_STRIDE, Mix, Skipped, Targets};
pub use objects::{Detail, Keypoint, KeypointLayout, LabelKind, Ring};
pub use packed::{Packed, PackedCopy, pack, pack_once};
pub use readers::Unpaired;
pub use rng::SampleRng;
pub use sample::LabeledBox;
pub use sample::{AnyImage, Dataset, GroundTruthImage, GroundTruthObject, IGNORED, LabelMask, ObjectDetail};
pub use sample::{Sample, Target, Transform};
pub use sampler::{LastBatch, Permutation, Position, SampleOrder, Sampler};
pub use transforms::{Pipeline, TransformStep};
pub use watched::Watched;
