//! Readers of the file layouts that data sets come in, one file each.

mod cifar;
mod folder;
mod idx;
mod irstd;
mod listing;
mod mask_values;
mod masked;
mod open;
mod pairs;
mod splits;
mod table;
mod tar;
pub mod tfrecord;
mod webdataset;

pub use cifar::Cifar;
pub use folder::FolderDataset;
pub use idx::{IdxArray, IdxDataset, read_idx};
pub use irstd::open_irstd;
pub(crate) use listing::entries;
pub use listing::{files_below, folders_beside_train, images_below};
pub use masked::{MaskedDataset, open_frames};
pub use open::{holds_shards, open, open_with};
pub use pairs::{ImagePairs, Unpaired};
pub use splits::{NamedSplit, join_splits, open_splits};
pub use table::TableDataset;
pub use tar::{Member, member_bytes, visit_members};
pub use tfrecord::{RecordTarget, TfRecordDataset, TfRecordKeys, write_tfrecord};
pub(crate) use webdataset::write_names;
pub use webdataset::{WebDataset, write_webdataset};

/// Which part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// To learn from.
    Train,
    /// To validate on; the test part where there is no other.
    Val,
    /// To test on. No other part takes its place: whoever names it wants figures on it.
    Test,
}

impl Split {
    /// The names of its folders and files, the usual ones first. Case does not matter.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Split::Train => &["train", "training"],
            Split::Val => &["val", "valid", "validation", "dev", "test", "testing"],
            Split::Test => &["test", "testing"],
        }
    }
}
