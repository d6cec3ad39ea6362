//! Files that are no plugins: one sentence each, and no crash.

use octant_pjrt::{PjrtError, Plugin};
use std::path::Path;

fn refusal(path: &Path) -> PjrtError {
    Plugin::load(path).expect_err("this is no plugin")
}

#[test]
fn a_missing_file_is_named() {
    let error = refusal(Path::new("/nowhere/plugin.so"));
    assert!(matches!(error, PjrtError::Missing { .. }), "{error:?}");
    assert!(error.to_string().starts_with("there is no PJRT plugin at /nowhere/plugin.so"), "{error}");
}

#[test]
fn a_text_file_is_no_shared_library() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.so");
    std::fs::write(&path, "this is not a shared library\n").unwrap();
    let error = refusal(&path);
    assert!(matches!(error, PjrtError::NotALibrary { .. }), "{error:?}");
    assert!(error.to_string().contains("plugin.so cannot be loaded as a shared library"), "{error}");
}

#[test]
fn a_folder_is_no_shared_library() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(refusal(folder.path()), PjrtError::NotALibrary { .. }));
}

#[test]
fn a_library_without_the_entry_point_is_no_plugin() {
    // Every process on Linux has the C library mapped; it is a shared library and certainly no plugin.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.split_whitespace().find(|word| word.contains("/libc.so") || word.contains("/libc-")).unwrap();
    let error = refusal(Path::new(library));
    assert!(matches!(error, PjrtError::NotAPlugin { .. }), "{error:?}");
    assert!(error.to_string().contains("does not export GetPjrtApi"), "{error}");
}

/// The loader's own sentence names symbols of the C library, and nothing that one could do.
#[cfg(target_env = "gnu")]
#[test]
fn a_plugin_for_a_newer_glibc_names_the_version() {
    let mut library = std::fs::read(octant_testing::fake_plugin::path()).unwrap();
    let version = library.windows(9).position(|bytes| bytes == b"\0GLIBC_2.").expect("versions of glibc");
    library[version + 7] = b'9';
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.so");
    std::fs::write(&path, library).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, PjrtError::NewerGlibc { .. }), "{error:?}");
    assert!(error.to_string().contains("plugin.so needs glibc 9."), "{error}");
}
