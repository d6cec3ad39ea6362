//! How a server behaves, and what it reports.

use crate::error::{Result, ServeError};
use octant_predict::PredictError;
use octant_web::Limits;
use std::net::SocketAddr;
use std::time::Duration;

/// Memory for requests is counted in parts of so many bytes.
pub(crate) const PART: usize = 4096;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where to listen; port 0 for any free one.
    pub address: SocketAddr,
    /// Further names by which clients reach this machine.
    pub names: Vec<String>,
    /// What clients must send. On addresses that others can reach one is made where none is given.
    pub token: Option<String>,
    /// Tensors are `[N, C, H, W]`; otherwise `[N, H, W, C]`.
    pub channels_first: bool,
    /// The most images of a batch.
    pub max_batch: usize,
    /// How long the first image of a batch waits for others; by default it does not.
    pub max_delay: Duration,
    /// The most images that wait, per model.
    pub queue: usize,
    /// The longest that a request may take.
    pub timeout: Duration,
    /// The most bytes of a request.
    pub max_request: usize,
    /// The most bytes of all requests that are being received or processed.
    pub memory: usize,
    /// How often the files of networks are looked at; never if not given.
    pub reload: Option<Duration>,
    /// What connections may take.
    pub limits: Limits,
}

impl ServeOptions {
    /// The usual ones, at an address.
    pub fn at(address: SocketAddr) -> ServeOptions {
        ServeOptions {
            address,
            names: Vec::new(),
            token: None,
            channels_first: true,
            max_batch: 8,
            max_delay: Duration::ZERO,
            queue: 128,
            timeout: Duration::from_secs(30),
            max_request: 64 << 20,
            memory: 1 << 30,
            reload: Some(Duration::from_secs(2)),
            // Clients keep connections for a while between requests.
            limits: Limits { head_time: Duration::from_secs(60), ..Limits::default() },
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |text: &str| Err(ServeError::Options(text.into()));
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ['-', '_', '.', '~'].contains(&letter);
        if self.max_batch == 0 || self.queue < self.max_batch {
            return wrong("a batch has at least one image, and at least as many must be able to wait");
        }
        if self.max_batch == 1 && !self.max_delay.is_zero() {
            return wrong(
                "the first image of a batch waits for others, and batches have one image: --max-delay changes nothing",
            );
        }
        if self.max_request < PART || self.memory < self.max_request {
            return wrong("the memory for requests must hold the largest request, and that at least 4 KiB");
        }
        if self.timeout.is_zero() || self.max_delay >= self.timeout {
            return wrong("requests must be allowed more time than the first image of a batch waits");
        }
        match &self.token {
            Some(token) if token.len() < 16 || !token.chars().all(is_letter) => {
                wrong("a token has at least 16 letters, digits, `-`, `_`, `.` or `~`")
            }
            _ => Ok(()),
        }
    }
}

/// What a server reports.
pub enum ServeEvent<'a> {
    /// A program was compiled and measured.
    Compiled {
        /// The model.
        model: &'a str,
        /// Images per run.
        batch: usize,
        /// The time of compiling and measuring.
        took: Duration,
        /// The time of a run.
        run: Duration,
    },
    /// Another version of a model is served from now on.
    Reloaded {
        /// The model.
        model: &'a str,
        /// The version.
        version: u64,
    },
    /// A changed model could not be loaded; the version before it is still served.
    NotReloaded {
        /// The model.
        model: &'a str,
        /// Why.
        error: &'a PredictError,
    },
}
