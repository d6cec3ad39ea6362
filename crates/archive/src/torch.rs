//! What `torch.save` writes: a pickle that describes the tensors, and storages with their elements.
//!
//! Two containers exist. Since PyTorch 1.6 it is a zip archive, `zip_file.rs`; before, the parts followed each other in
//! one stream, `legacy.rs`. Both lead to the same pickle and the same storages: `storages.rs` turns the pickle's records
//! into tensors and `state_dict.rs` finds the dictionary of tensors inside a checkpoint.

mod legacy;
mod modules;
mod state_dict;
mod storages;
mod write;
mod zip_file;

pub use write::save_torch;

pub(crate) use legacy::{is_legacy, read as read_legacy};
pub(crate) use zip_file::read as read_zip;

use crate::pickle::Globals;
use crate::pickle::globals::{CONTAINERS, NUMPY, TORCH};

/// NumPy is here for the odd scalar in a checkpoint: a best accuracy, the state of a random generator.
fn accepted() -> Vec<Globals> {
    [TORCH, CONTAINERS, NUMPY].concat()
}
