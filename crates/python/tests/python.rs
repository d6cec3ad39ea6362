//! The module as Python sees it: the tests are `tests/*.py`, which run with the module that the same build made.

use octant_testing::oracle;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with the package as it would be installed: its Python files, and the module of this build.
fn package(folder: &Path) -> PathBuf {
    let package = folder.join("octant");
    std::fs::create_dir(&package).expect("a folder");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("package/octant");
    for file in std::fs::read_dir(sources).expect("the package").flatten().filter(|file| file.path().is_file()) {
        std::fs::copy(file.path(), package.join(file.file_name())).expect("a copy");
    }
    // Cargo puts the module of a build beside its tests.
    let tests = std::env::current_exe().expect("this test");
    let module = tests.with_file_name("liboctant_python.so");
    assert!(module.is_file(), "{} was not built", module.display());
    std::fs::hard_link(&module, package.join("_native.abi3.so"))
        .or_else(|_| std::fs::copy(&module, package.join("_native.abi3.so")).map(drop))
        .expect("the module");
    folder.to_path_buf()
}

fn run(test: &str, python: Option<OsString>) {
    let Some(python) = python else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = package(folder.path());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(test);
    let mut command = Command::new(python);
    command.arg("-W").arg("error::ResourceWarning").arg(script).current_dir(folder.path());
    command.env("PYTHONPATH", path).env("OCTANT_CACHE", folder.path().join("cache"));
    command.env("OCTANT_NOTEBOOKS", Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/notebooks"));
    // Memory that is freed or written past its end shows at once.
    command.env("PYTHONMALLOC", "debug");
    let output = command.output().expect("Python");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{test}: {text}");
}

#[test]
fn models_predict() {
    run("models.py", oracle::python("models in Python"));
}

#[test]
fn arrays_are_those_of_other_libraries() {
    run("arrays.py", oracle::python("arrays in NumPy and JAX"));
}

#[test]
fn runs_train_as_the_command_trains_them() {
    run("training.py", oracle::python("training in Python"));
}

#[test]
fn loaders_imaging_and_metrics_agree_with_their_references() {
    run("data.py", oracle::python("the loader, imaging and metrics in Python"));
}

#[test]
fn loaders_read_every_form_of_data() {
    run("readers.py", oracle::python("the loader over every form of data"));
}

#[test]
fn masks_and_keypoints_have_the_figures_of_pycocotools() {
    run("coco.py", oracle::python("COCO's evaluation in Python"));
}

#[test]
fn threads_are_counted() {
    run("threads.py", oracle::python("threads of the engine and the loader"));
}

#[test]
fn documentation_is_true() {
    run("documentation.py", oracle::python("the examples of the package"));
}

#[test]
fn pytorch_takes_and_gives_tensors() {
    run("pytorch.py", oracle::torch("PyTorch's tensors and training loop"));
}

#[test]
fn lightning_trains_and_resumes() {
    run("lightning_loop.py", oracle::torch("PyTorch Lightning over the loader"));
}

#[test]
fn no_keyword_is_accepted_and_ignored() {
    run("every_keyword.py", oracle::python("every keyword of every function"));
}

#[test]
fn notebooks_run_and_are_interrupted() {
    run("notebooks.py", oracle::python("notebooks and a Jupyter kernel"));
}

#[test]
fn random_arguments_leave_the_interpreter_alive() {
    run("fuzz.py", oracle::python("random arguments"));
}
