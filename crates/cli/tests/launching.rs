//! What `octant launch` writes, before the schedulers' own tools where they are installed.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;

use binary::{done, octant, refused};
use octant_testing::oracle;
use std::path::Path;
use std::process::Command;

const TRAIN: [&str; 4] = ["--", "classify", "--data", "/data/it's here"];

fn launch(at: &Path, words: &[&str]) -> String {
    done(at, &[&["launch"], words, &TRAIN].concat())
}

/// Whether a program on the path takes a file; true where there is no such program.
fn accepts(at: &Path, program: &[&str], file: &str) -> bool {
    match Command::new(program[0]).args(&program[1..]).arg(at.join(file)).output() {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            eprintln!("{}", String::from_utf8_lossy(&text));
            output.status.success()
        }
        Err(_) => {
            eprintln!("SKIPPED: there is no {}", program[0]);
            true
        }
    }
}

#[test]
fn scripts_are_what_the_shell_and_slurm_take() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let text = launch(at, &["--to", "slurm", "--on", "4x8xh100", "--time", "90m", "--out", "job.sh"]);
    assert_eq!(text, "");
    assert!(accepts(at, &["bash", "-n"], "job.sh"));
    let text = std::fs::read_to_string(at.join("job.sh")).unwrap();
    assert!(text.contains("#SBATCH --time=0-01:30:00\n#SBATCH --signal=USR1@120\n"), "{text}");
    assert!(
        text.contains(r"octant train classify --data '/data/it'\''s here' --cores all --nodes auto --restarts 3"),
        "{text}"
    );
    // The script itself finds its way into the job: what srun would start is printed instead.
    let srun = "srun() { printf '%s\\n' \"$@\"; return 75; }; scontrol() { echo \"queued $2 again\"; }; ";
    let script = format!("{srun} SLURM_JOB_ID=7; {text}");
    let output = Command::new("bash").arg("-c").arg(script).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("\n/data/it's here\n") && printed.ends_with("queued 7 again\n"), "{printed}");
    assert_eq!(output.status.code(), Some(75));
}

#[test]
fn manifests_are_what_kubernetes_takes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let image = ["--image", "registry.example/octant:1", "--time", "2h"];
    for (name, on) in [("gpus", "4x8xh100"), ("slice", "v5e-64"), ("plain", "2")] {
        let words = [&["--to", "kubernetes", "--on", on, "--out", name][..], &image].concat();
        launch(at, &words);
        let set = launch(at, &[&["--to", "jobset", "--on", on, "--queue", "team"][..], &image].concat());
        assert!(set.contains("kueue.x-k8s.io/queue-name: \"team\"") && set.contains("kind: JobSet"), "{set}");
        // The set's template is a Job, which the validator knows.
        let (_, spec) = set.split_once("    template:\n      spec:\n").unwrap();
        let spec: String = spec.lines().map(|line| format!("{}\n", line.strip_prefix("      ").unwrap())).collect();
        let job = format!("apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n{spec}");
        std::fs::write(at.join(format!("{name}-set")), job).unwrap();
    }
    let Some(python) = oracle::python("manifests") else { return };
    let script = "import sys, kubernetes_validate, yaml\nfor path in sys.argv[1:]:\n  for part in yaml.safe_load_all(open(path)):\n    \
                  kubernetes_validate.validate(part, '1.31', strict=True)\n";
    let files = ["gpus", "slice", "plain", "gpus-set", "slice-set", "plain-set"].map(|name| at.join(name));
    let output = Command::new(python).args(["-c", script]).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn tasks_and_containers_are_what_their_tools_take() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let text = launch(at, &["--to", "skypilot", "--on", "2x8xh100"]);
    assert!(text.contains("num_nodes: 2\nresources:\n  accelerators: H100:8\n"), "{text}");
    done(at, &["launch", "--to", "container", "--out", "Containerfile"]);
    if let Some(python) = oracle::python("a container's recipe") {
        let hadolint = Path::new(&python).with_file_name("hadolint");
        assert!(accepts(at, &[&hadolint.to_string_lossy(), "--ignore", "DL3013"], "Containerfile"));
    }
    refused(at, &["launch", "--to", "container", "--time", "2h"], "--time has no effect");
    refused(at, &["launch", "--to", "slurm", "--on", "v5e-64", "--", "glyphs"], "Slurm does not schedule TPU slices");
    refused(at, &["launch", "--to", "slurm", "--on", "4x8xh999", "--", "glyphs"], "no GPU called h999");
    refused(at, &["launch", "--to", "slurm", "--on", "2", "--", "glyphs", "--nodes", "none"], "--nodes is added");
    let (code, _, printed) = octant(at, &["launch", "--to", "slurm", "--on", "2", "--name", "A b", "--", "glyphs"]);
    assert!(code == 1 && printed.contains("cannot be called"), "{printed}");
}
