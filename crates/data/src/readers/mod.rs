//! Readers of the file layouts that data sets come in, one file each.

mod cifar;
mod folder;
mod idx;
mod label_rows;
mod labels;
mod mask_form;
mod mask_values;
mod masked;
mod masks_of_folder;
mod open;
mod pairs;
mod semantic_sets;
mod splits;
mod table;
mod tar;
pub mod tfrecord;
mod webdataset;

use crate::listing;
pub use crate::listing::{Split, files_below, folders_beside_train, images_below};
pub use cifar::Cifar;
pub use folder::FolderDataset;
pub use idx::{IdxArray, IdxDataset, read_idx};
pub use labels::LabeledImages;
pub use mask_form::MaskRules;
pub use masked::{MaskedDataset, open_frames};
pub use masks_of_folder::open_masks;
pub use open::{holds_shards, open, open_with};
pub use pairs::{ImagePairs, Unpaired};
pub use splits::{NamedSplit, PackForm, join_splits, numbered_alike, open_object_splits, open_splits};
pub use table::TableDataset;
pub use tar::{Member, member_bytes, visit_members};
pub use tfrecord::{RecordTarget, TfRecordDataset, TfRecordKeys, write_tfrecord};
pub(crate) use webdataset::{BOXES_ALONE, write_names};
pub use webdataset::{WebDataset, write_webdataset};
