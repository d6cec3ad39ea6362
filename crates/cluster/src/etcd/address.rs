//! Addresses of etcd: `etcd://HOST[:PORT][/NAME]`.

use crate::error::{ClusterError, Result};

const SCHEME: &str = "etcd://";
/// Where etcd listens for clients.
const PORT: u16 = 2379;

/// Where etcd is, and which run is meant.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// `host:port`.
    pub server: String,
    /// What distinguishes runs.
    pub name: String,
}

impl Address {
    /// None where it is the address of something else.
    pub fn parse(text: &str) -> Option<Address> {
        let rest = text.strip_prefix(SCHEME)?;
        let (server, name) = rest.split_once('/').unwrap_or((rest, ""));
        let name = if name.is_empty() { "run" } else { name.trim_end_matches('/') };
        Some(Address { server: server.into(), name: name.into() })
    }
}

/// The same with etcd's port where there is none; none for an address of something else. `with_port` adds a port to a host.
pub(crate) fn with_port(text: &str, with_port: impl Fn(&str, u16) -> Result<String>) -> Option<Result<String>> {
    let Address { server, name } = Address::parse(text)?;
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    Some(match name.chars().all(is_name) {
        true => with_port(&server, PORT).map(|server| format!("{SCHEME}{server}/{name}")),
        false => Err(ClusterError::Place(format!(
            "the run's name in {text} has letters, digits, dashes, underscores and dots alone: etcd://HOST:{PORT}/NAME"
        ))),
    })
}
