//! What the servers of Octant share: listening with limits, and access control.
//!
//! [`Listener`] accepts connections of HTTP/1, of HTTP/2, or of both on one port, bounds what one client can take, and drains
//! what is under way when it stops. [`Access`] decides which requests a server looks at all, before any of them is interpreted:
//! by the name that the server is reached by, the page that they come from, and a token. [`Endpoint`] is where a server listens,
//! as addresses that people can open.
//!
//! Start reading at [`Access`].

mod access;
mod endpoint;
mod listener;

pub use access::{Access, Posts, Reached, new_token};
pub use endpoint::{AddressError, Endpoint, host_of};
pub use listener::{Limits, Listener, Protocol, Stop, runtime};
