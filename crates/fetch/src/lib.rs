//! Downloads that are verified, resumed and kept, and folders that lie in object stores.
//!
//! This is the one crate that touches the network. It is blocking and small on purpose: a training run fetches a few
//! large files before it begins, and then never again. A [`Store`] is a folder; a file appears in it under its name only
//! when all of it is there and its checksum is right, so whoever finds a file may use it. What a broken connection left
//! is kept aside and the next attempt goes on from there, in this process or a later one.
//!
//! - [`Store::get`] fetches one [`Item`] whose address and checksum are known.
//! - [`Location`] is what people type: a path, `https://…`, `s3://bucket/prefix` or `gs://bucket/prefix`;
//!   [`Location::localise`] makes a path of it, and asks the server only for what has changed.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use octant_fetch::{Checksum, Item, Store};
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
//! // A mirror takes the place of the published address: another server, or a folder as here.
//! let store = Store::open(&cache)?.mirror(folder.to_str().ok_or("a strange path")?)?;
//! let path = store.get(&item, &mut |done, total| println!("{done} of {total:?} bytes"))?;
//! assert_eq!(std::fs::read_to_string(path)?, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! - [`Service`] asks a service beside a run, such as an experiment tracker, in JSON.
//!
//! Start reading at [`Store::get`], then `download.rs` for how an interrupted download goes on.

mod authority;
mod bucket;
mod checksum;
mod download;
mod error;
mod http;
mod listing;
mod location;
mod mirroring;
mod service;
mod store;
mod web;

pub use authority::utc_stamp;
pub use checksum::Checksum;
pub use error::FetchError;
pub use location::{Bucket, Location};
pub use service::Service;
pub use store::{Item, Store};

/// Is told how many bytes are there, and of how many if that is known.
pub type Progress<'a> = &'a mut dyn FnMut(u64, Option<u64>);
