//! Tests of the server.

mod clients;
mod grpc;
mod hostile;
mod load;
mod protocol;
mod support;
