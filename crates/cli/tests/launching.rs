//! What `octant launch` writes, before the schedulers' own tools where they are installed.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;
#[path = "launching/slurm.rs"]
mod slurm;

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
        text.contains(
            r"octant train classify --data '/data/it'\''s here' --cores all --nodes auto --restarts 3 --set grace=120"
        ),
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
fn slurm_takes_scripts_for_the_nodes_that_it_has() {
    let Some(slurm) = slurm::Slurm::start() else {
        eprintln!("SKIPPED: scripts before Slurm; there are no slurmctld and munged");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (on, nodes) in [("4x8xh100", 4), ("8xh100", 1), ("2", 2)] {
        launch(at, &["--to", "slurm", "--on", on, "--time", "24h", "--queue", "gpu", "--out", "job.sh"]);
        let (takes, printed) = slurm.takes(&at.join("job.sh"));
        let list = if nodes == 1 { "node1".to_string() } else { format!("node[1-{nodes}]") };
        assert!(takes && printed.contains(&format!("on nodes {list} in partition gpu")), "{on}: {printed}");
    }
    for refused in ["9x8xh100", "4x8xa100"] {
        launch(at, &["--to", "slurm", "--on", refused, "--out", "job.sh"]);
        let (takes, printed) = slurm.takes(&at.join("job.sh"));
        assert!(!takes, "{refused}: {printed}");
    }
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

/// The part of Ray that the program uses: tasks are threads, and a node is whatever takes a bundle.
const RAY: &str = r#"
import sys, threading, types
ray, strategies, groups = (types.ModuleType(name) for name in ("ray", "s", "g"))
class Task:
    def __init__(self, call): self.call = call
    def options(self, **given):
        print("options", {k: v for k, v in sorted(given.items()) if k != "scheduling_strategy"},
              given["scheduling_strategy"]["placement_group_bundle_index"])
        return self
    def remote(self, *words):
        future = types.SimpleNamespace()
        def run(): future.result = self.call(*words)
        future.thread = threading.Thread(target=run); future.thread.start()
        return future
def get(futures):
    if not isinstance(futures, list): return get([futures])[0]
    for future in futures: future.thread.join()
    return [future.result for future in futures]
def wait(futures, num_returns, timeout):
    return [future for future in futures if not future.thread.is_alive()], []
class Group:
    def ready(self): return Task(lambda: None).remote()
def placement_group(bundles, strategy, name):
    print("bundles", bundles, strategy, name)
    return Group()
ray.remote = lambda **given: Task
ray.get, ray.wait, ray.init = get, wait, lambda: None
ray.util = types.SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")
groups.placement_group = placement_group
strategies.PlacementGroupSchedulingStrategy = dict
for name, module in {"ray": ray, "ray.util.placement_group": groups, "ray.util.scheduling_strategies": strategies}.items():
    sys.modules[name] = module
sys.modules["ray.util"] = ray.util
sys.argv = ["job.py"]
exec(compile(open("job.py").read(), "job.py", "exec"))
"#;

/// With Ray itself, two nodes of it on one machine and a shell script as the program, this was tried by hand (docs/notes/scale.md).
#[test]
fn a_program_for_ray_starts_a_process_per_node() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    launch(at, &["--to", "ray", "--on", "2x4xh100", "--grace", "40s", "--out", "job.py"]);
    // What the nodes would start is printed instead, and rank 1 ends with a code of its own.
    let octant = "#!/bin/sh\nfor word in \"$@\"; do printf '[%s]' \"$word\"; done\necho\n\
                  case \"$*\" in *'--node-id 1'*) exit 76;; esac\n";
    std::fs::write(at.join("octant"), octant).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(at.join("octant")).status().unwrap().success());
    let path = format!("{}:{}", at.display(), std::env::var("PATH").unwrap());
    let output = Command::new("python3").args(["-c", RAY]).current_dir(at).env("PATH", path).output().unwrap();
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(76), "{printed}");
    let bundle = "{'CPU': 1, 'GPU': 4, 'accelerator_type:H100': 0.001}";
    assert!(printed.contains(&format!("bundles [{bundle}, {bundle}] STRICT_SPREAD octant-classify")), "{printed}");
    for rank in 0..2 {
        let options = format!("options {{'name': 'octant-classify-{rank}', 'num_cpus': 1, 'num_gpus': 4}} {rank}");
        let words = format!(
            "[train][classify][--data][/data/it's here][--cores][all][--restarts][3][--set][grace=40][--node-id][{rank}]\
             [--num-nodes][2][--coordinator][127.0.0.1:"
        );
        assert!(printed.contains(&options) && printed.contains(&words), "{rank}: {printed}");
    }
    assert!(printed.contains("octant-classify: exit codes [0, 76]"), "{printed}");
    refused(at, &["launch", "--to", "ray", "--on", "v5e-64", "--", "glyphs"], "use jobset, kubernetes or skypilot");
    refused(at, &["launch", "--to", "ray", "--on", "2", "--queue", "a", "--", "glyphs"], "Ray has no queues");
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
