//! Texts of all schedulers; their own tools look at them in the tests of the command.

use super::*;

fn job() -> Job {
    let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
    Job {
        name: "flowers".into(),
        command: [words("octant train classify --data"), vec!["/data/my flowers".into()]].concat(),
        nodes: 4,
        accelerators: Accelerators::Gpus { kind: Some("h100".into()), count: 8 },
        time: Some(Duration::from_secs(26 * 3600)),
        grace: Duration::from_secs(120),
        restarts: 3,
        image: None,
        queue: None,
    }
}

#[test]
fn a_slurm_script_signals_before_its_end_and_is_queued_again() {
    let text = Job { queue: Some("gpu".into()), ..job() }.text(Scheduler::Slurm).unwrap();
    for line in [
        "#SBATCH --nodes=4",
        "#SBATCH --gpus-per-node=h100:8",
        "#SBATCH --partition=gpu",
        "#SBATCH --time=1-02:00:00",
        "#SBATCH --signal=USR1@120",
        "  scontrol requeue \"$SLURM_JOB_ID\"",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(text.contains("octant train classify --data '/data/my flowers' --nodes auto --restarts 3"), "{text}");
}

#[test]
fn pods_know_how_many_they_are_and_where_the_first_one_is() {
    let pods = Job { image: Some("registry.example/octant:1".into()), ..job() };
    let text = pods.text(Scheduler::JobSet).unwrap();
    for part in [
        "kind: JobSet",
        "maxRestarts: 3",
        "completions: 4",
        "value: \"flowers-train-0-0.flowers\"",
        "nvidia.com/gpu: 8",
        "terminationGracePeriodSeconds: 120",
        "- \"/data/my flowers\"",
        "activeDeadlineSeconds: 93600",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("--restarts"), "the set starts its pods again");
    let text = pods.text(Scheduler::Kubernetes).unwrap();
    assert!(
        text.contains("clusterIP: None")
            && text.contains("subdomain: flowers")
            && text.contains("\"flowers-0.flowers\"")
    );
    let (label, topology) = ("tpu-v5-lite-podslice".to_string(), "8x8".to_string());
    let slice = Job { nodes: 16, accelerators: Accelerators::Tpus { label, topology, count: 4 }, ..pods };
    let text = slice.text(Scheduler::JobSet).unwrap();
    assert!(text.contains("gke-tpu-topology: \"8x8\"") && text.contains("google.com/tpu: 4"), "{text}");
}

#[test]
fn one_machine_needs_no_others() {
    let text = Job { nodes: 1, restarts: 0, time: None, ..job() }.text(Scheduler::SkyPilot).unwrap();
    assert!(
        text.contains("num_nodes: 1") && text.contains("accelerators: H100:8") && !text.contains("--nodes"),
        "{text}"
    );
}

#[test]
fn a_program_for_ray_reserves_nodes_and_gives_each_process_its_number() {
    let text = Job { time: None, ..job() }.text(Scheduler::Ray).unwrap();
    for line in [
        "COMMAND = [\"octant\", \"train\", \"classify\", \"--data\", \"/data/my flowers\", \"--restarts\", \"3\", \"--set\", \
         \"grace=120\"]\n",
        "NODES = 4\nBUNDLE = {\"CPU\": 1, \"GPU\": 8, \"accelerator_type:H100\": 0.001}\nGRACE = 120\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("SETTINGS") && !text.contains("--nodes"), "{text}");
}

#[test]
fn the_time_to_save_is_passed_on_where_a_scheduler_has_one() {
    let has_grace = |job: Job, scheduler| job.text(scheduler).unwrap().contains("grace=120");
    assert!(
        has_grace(job(), Scheduler::Slurm) && has_grace(Job { image: Some("x".into()), ..job() }, Scheduler::JobSet)
    );
    assert!(!has_grace(Job { time: None, ..job() }, Scheduler::Slurm), "nobody sends a notice");
    let given = Job { command: ["octant", "train", "glyphs", "--set", "grace=9"].map(String::from).into(), ..job() };
    assert!(!has_grace(given, Scheduler::Slurm));
    assert!(!has_grace(Job { grace: Duration::ZERO, ..job() }, Scheduler::Slurm));
}

#[test]
fn what_a_scheduler_would_ignore_is_refused() {
    let refused = |job: Job, scheduler: Scheduler| job.text(scheduler).unwrap_err();
    assert!(refused(job(), Scheduler::Ray).contains("does not end jobs"));
    let tpus = Accelerators::Tpus { label: "tpu-v5-lite-podslice".into(), topology: "8x8".into(), count: 4 };
    assert!(refused(Job { time: None, accelerators: tpus, ..job() }, Scheduler::Ray).contains("use jobset"));
    assert!(refused(Job { image: Some("x".into()), ..job() }, Scheduler::Slurm).contains("--image has no effect"));
    assert!(refused(job(), Scheduler::JobSet).contains("give --image"));
    assert!(refused(job(), Scheduler::SkyPilot).contains("does not end jobs"));
    for name in ["", "Flowers", "9flowers", "a b", "-x", "x-", "x;rm"] {
        assert!(refused(Job { name: name.into(), ..job() }, Scheduler::Slurm).contains("cannot be called"), "{name}");
    }
    assert!(refused(Job { nodes: 0, ..job() }, Scheduler::Slurm).contains("at least one machine"));
}

#[test]
fn words_survive_shells_and_yaml() {
    assert_eq!(quoted("it's; $HOME"), r"'it'\''s; $HOME'");
    assert_eq!(quoted(""), "''");
    assert_eq!(yaml("a \"b\" \\ \n"), "\"a \\\"b\\\" \\\\ \\u000a\"");
}

#[test]
fn every_scheduler_reads_standard_input() {
    for scheduler in [Scheduler::Slurm, Scheduler::Kubernetes, Scheduler::JobSet, Scheduler::SkyPilot, Scheduler::Ray] {
        let (program, arguments) = scheduler.command();
        let reads = arguments.is_empty() || ["-", "/dev/stdin"].contains(&arguments[arguments.len() - 1]);
        assert!(reads, "{program} {arguments:?}");
    }
}
