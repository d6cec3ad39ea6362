//! Everything here runs against a web server inside the test: no network is needed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cache;
mod locations;
mod moto;
mod store;
