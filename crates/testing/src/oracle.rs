//! Programs that tests compare with. `cargo xtask test` installs them and names them in variables.

use std::ffi::OsString;

/// Set by `cargo xtask test` where everything was installed: a reference that is missing then is a failure.
pub const REQUIRED: &str = "OCTANT_REQUIRE_ORACLES";

/// The program that this variable names. None, with a line about what is not tested, where references are not installed.
///
/// # Panics
/// Where references are required.
pub fn find(variable: &str, what: &str) -> Option<OsString> {
    let found = std::env::var_os(variable);
    if found.is_none() {
        assert!(std::env::var_os(REQUIRED).is_none(), "{variable} is not set, so {what} cannot be tested");
        eprintln!("SKIPPED: {what}; `cargo xtask test` sets {variable}");
    }
    found
}

/// Python with jaxlib, onnxruntime, OpenVINO and TensorBoard.
pub fn python(what: &str) -> Option<OsString> {
    find("OCTANT_ORACLE_PYTHON", what)
}

/// Python with PyTorch, torchvision and timm.
pub fn torch(what: &str) -> Option<OsString> {
    find("OCTANT_ORACLE_TORCH", what)
}
