//! Readers of the file layouts that data sets come in, one file each.

mod cifar;
mod folder;
mod idx;
mod irstd;
mod listing;
mod masked;
mod open;
mod pairs;
mod table;
mod tar;
pub mod tfrecord;
mod webdataset;

pub use cifar::Cifar;
pub use folder::FolderDataset;
pub use idx::{IdxArray, IdxDataset, read_idx};
pub use irstd::open_irstd;
pub(crate) use listing::entries;
pub use listing::images_below;
pub use masked::{MaskedDataset, open_frames};
pub use open::{holds_shards, open};
pub use pairs::{ImagePairs, Unpaired};
pub use table::TableDataset;
pub use tar::{Member, member_bytes, visit_members};
pub use tfrecord::{TfRecordDataset, TfRecordKeys};
pub use webdataset::{WebDataset, write_webdataset};

/// Which part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// To learn from.
    Train,
    /// To be judged on.
    Test,
}
