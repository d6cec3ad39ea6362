//! `octant board`: all runs of some folders in a browser, live; and the data server behind TensorBoard.
//!
//! A [`Store`] follows the event files and the tables of every run below its folders and keeps all numbers as columns;
//! images and histograms stay in their files until somebody looks at them. [`serve`] serves a browser over HTTP/1 with
//! embedded pages, JSON and packed points; [`serve_data`] serves TensorBoard over gRPC. Both only
//! read, but for notes and tags where [`Options::edits`] allows it.
//!
//! No request names a file: runs have numbers, values have tags and indices, and pages are a fixed list. What a request
//! may look like at all is decided by `octant-web`, before any of it is interpreted.
//!
//! Start reading at [`Store`], then `api`.

mod api;
mod curves;
mod data_server;
mod digest;
mod editing;
mod error;
mod facts;
mod findings;
mod machine;
mod media;
mod notes;
mod points;
mod response;
mod run;
mod server;
mod store;
mod table;
mod timeline;
mod values;

pub use data_server::DataOptions;
pub use error::BoardError;
pub use points::{Axis, PointReduction, reduce, smooth};
pub use run::Run;
pub use server::{Options, Serving, serve, serve_anywhere, serve_data};
pub use store::Store;
