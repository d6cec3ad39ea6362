//! Predictors behind HTTP and gRPC.
//!
//! A [`Server`] loads networks, compiles their programs for several batch sizes before it is ready, and then serves the Open
//! Inference Protocol (version 2) over HTTP and gRPC on one port, with a plain `POST /predict` and a page for people. Requests
//! that wait are put together into batches; how many images a batch takes follows from how long each program took when it was
//! warmed up. Everything that a client can take is bounded: connections, bytes of requests, images that wait, time.
//!
//! An image travels: request → `protocol` (tensors) → `infer` (rows of pixels) → `queue` → `worker` (one run of a program for
//! many requests) → `infer` (decoded) → response. Start reading at [`Server`], then `infer.rs`.

mod error;
mod grpc;
mod http;
mod infer;
mod loaded;
mod metrics;
mod model;
mod named;
mod options;
mod outputs;
mod plan;
mod protocol;
mod queue;
mod reload;
mod server;
mod shared;
mod worker;

pub use error::{Result, ServeError};
pub use model::ModelSource;
pub use named::SourceOptions;
pub use options::{ServeEvent, ServeOptions};
pub use server::Server;
