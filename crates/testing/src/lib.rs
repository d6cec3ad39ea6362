//! What tests of several crates share: references in Python, golden figures, tiny training steps, a web server that misbehaves on
//! demand, an object store, and a PJRT plugin without a device. A dev-dependency only.

#[cfg(feature = "golden")]
pub mod deterministic;
#[cfg(feature = "golden")]
pub mod engine;
pub mod fake_plugin;
#[cfg(feature = "golden")]
pub mod figures;
pub mod http;
pub mod moto;
pub mod oracle;
#[cfg(feature = "steps")]
pub mod tiny_steps;
#[cfg(any(feature = "golden", feature = "steps"))]
pub mod wide;
