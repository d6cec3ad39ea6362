//! Tests of the server.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod clients;
mod grpc;
mod hostile;
mod load;
mod protocol;
mod support;
