//! A plugin without a device, for tests of what happens around one. It is compiled once per test binary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pjrt/tests/plugins/fake.rs");
    // Cargo's own compiler: the one that built this test can build the plugin.
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "--cap-lints", "allow", "-o"]);
    command.arg(folder.path().join("fake.so")).arg(source);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
});

/// Where the plugin lies.
pub fn path() -> PathBuf {
    FOLDER.path().join("fake.so")
}
