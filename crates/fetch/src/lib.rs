//! Verified, resumable, cached downloads, and folders in object stores.
//!
//! This is the one crate that touches the network. It is blocking and small on purpose: a training run fetches a few
//! large files before it begins, and then at most stores its checkpoints, on a thread of their own. A [`DownloadCache`] is a folder; a file appears in it under its name only
//! when it is complete and its checksum is right, so every file in it is usable. A partial download
//! is kept separately and resumed by the next attempt, in this process or a later one.
//!
//! - [`DownloadCache::get`] fetches one [`Item`] whose address and checksum are known.
//! - [`FetchLocation`] is what users type: a path, `https://…`, `s3://bucket/prefix` or `gs://bucket/prefix`;
//!   [`FetchLocation::localize`] makes a path of it, and requests only what has changed.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use octant_fetch::{Checksum, Item, DownloadCache};
//! # let temporary = tempfile::tempdir()?;
//! # let (cache, folder) = (temporary.path().join("cache"), temporary.path().join("folder"));
//! # std::fs::create_dir(&folder)?;
//! std::fs::write(folder.join("greeting.txt"), "hello")?;
//!
//! let item = Item {
//!     name: "greeting.txt".into(),
//!     url: "https://example.org/greeting.txt".into(),
//!     bytes: Some(5),
//!     checksum: Some(Checksum::Md5("5d41402abc4b2a76b9719d911017c592".into())),
//! };
//! // A mirror replaces the published address: another server, or a folder as here.
//! let cache = DownloadCache::open(&cache)?.mirror(folder.to_str().ok_or("a strange path")?)?;
//! let path = cache.get(&item, &mut |done, total| println!("{done} of {total:?} bytes"))?;
//! assert_eq!(std::fs::read_to_string(path)?, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! - [`ObjectStore`] writes objects under a prefix of a bucket, and reads them.
//! - [`Service`] calls a service beside a run, such as an experiment tracker, in JSON.
//!
//! Start reading at [`DownloadCache::get`], then `download.rs` for how an interrupted download is resumed.

mod bucket;
mod cache;
mod checksum;
mod credentials;
mod download;
mod error;
mod http;
mod listing;
mod location;
mod mirroring;
mod store;
mod web;

pub use cache::{DownloadCache, Item};
pub use checksum::{Checksum, sha256};
pub use credentials::utc_stamp;
pub use error::FetchError;
pub use http::Service;
pub use location::{Bucket, FetchLocation};
pub use store::{ObjectStore, StoredFile};

/// Called with the bytes received so far, and the total if it is known.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(u64, Option<u64>);
