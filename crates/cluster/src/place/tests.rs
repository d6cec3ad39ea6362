//! Each launcher's variables as its own processes see them.

use super::*;

fn variables(text: &str) -> Variables {
    text.lines()
        .filter_map(|line| line.trim().split_once('='))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn find(text: &str) -> std::result::Result<Place, String> {
    Place::find(&Given::default(), &variables(text)).map_err(|error| error.to_string())
}

fn place(
    launcher: Launcher,
    [rank, ranks]: [usize; 2],
    [local_rank, local_ranks]: [usize; 2],
    coordinator: &str,
    attempt: &str,
) -> Place {
    Place { rank, ranks, local_rank, local_ranks, coordinator: coordinator.into(), attempt: attempt.into(), launcher }
}

const SLURM: &str = "SLURM_JOB_ID=70001\nSLURM_STEP_ID=0\nSLURM_PROCID=5\nSLURM_STEP_NUM_TASKS=8\nSLURM_LOCALID=1\nSLURM_NODEID=1\n\
                     SLURM_STEP_TASKS_PER_NODE=4(x2)\nSLURM_STEP_NODELIST=gpu[03-04]";

#[test]
fn every_launcher_says_which_process_this_is() {
    assert_eq!(find(SLURM), Ok(place(Launcher::Slurm, [5, 8], [1, 4], "gpu03:61809", "70001.0-0/")));
    let torchrun = "RANK=3\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=node0\nMASTER_PORT=29500\n\
                    TORCHELASTIC_RUN_ID=7\nTORCHELASTIC_RESTART_COUNT=2";
    assert_eq!(find(torchrun), Ok(place(Launcher::Torchrun, [3, 4], [1, 2], "node0:29501", "7-2/")));
    let job = "JOB_COMPLETION_INDEX=2\nOCTANT_NUM_NODES=4\nHOSTNAME=train-workers-0-2\nOCTANT_SERVICE=train";
    assert_eq!(find(job), Ok(place(Launcher::Kubernetes, [2, 4], [0, 1], "train-workers-0-0.train:8482", "k8s-0/")));
    let sky = "SKYPILOT_NODE_RANK=1\nSKYPILOT_NUM_NODES=2\nSKYPILOT_NODE_IPS=10.0.0.1\nSKYPILOT_TASK_ID=sky-1";
    assert!(find(sky).unwrap_err().contains("1 addresses"));
    let sky = sky.replace("10.0.0.1", "10.0.0.1 10.0.0.2");
    assert_eq!(find(&sky), Ok(place(Launcher::SkyPilot, [1, 2], [0, 1], "10.0.0.1:8482", "sky-1/")));
    let mpi =
        "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=1\nOMPI_COMM_WORLD_LOCAL_SIZE=2";
    assert_eq!(find(mpi), Ok(place(Launcher::OpenMpi, [1, 2], [1, 2], "127.0.0.1:8482", "mpi-0/")));
    let pod = "TPU_WORKER_ID=1\nTPU_WORKER_HOSTNAMES=t0,t1,t2,t3";
    assert_eq!(find(pod), Ok(place(Launcher::Tpu, [1, 4], [0, 1], "t0:8482", "tpu/")));
    let slices = format!("{pod}\nMEGASCALE_SLICE_ID=1\nMEGASCALE_NUM_SLICES=2\nMEGASCALE_COORDINATOR_ADDRESS=s0:8080");
    assert_eq!(find(&slices), Ok(place(Launcher::Tpu, [5, 8], [0, 1], "s0:8482", "tpu/")));
}

#[test]
fn flags_belong_together_and_win() {
    let all = Given { node_id: Some(1), num_nodes: Some(2), coordinator: Some("head".into()) };
    let found = Place::find(&all, &variables(SLURM)).unwrap();
    assert_eq!(found, place(Launcher::Flags, [1, 2], [0, 1], "head:8482", ""));
    let error = Place::find(&Given { coordinator: None, ..all.clone() }, &Variables::new()).unwrap_err().to_string();
    assert!(error.contains("give --coordinator too"), "{error}");
    let error = Place::find(&Given { node_id: Some(2), ..all }, &Variables::new()).unwrap_err().to_string();
    assert!(error.contains("rank 2 of 2"), "{error}");
    let elsewhere = Given { coordinator: Some("head:9".into()), ..Given::default() };
    assert_eq!(Place::find(&elsewhere, &variables(SLURM)).unwrap().coordinator, "head:9");
    let again = format!("{SLURM}\nOCTANT_ATTEMPT=3");
    assert_eq!(find(&again).unwrap().attempt, "70001.0-0/");
}

#[test]
fn half_set_environments_are_refused_by_name() {
    let refused = |text: &str, words: &str| {
        let error = find(text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    };
    refused("", "no launcher is known");
    refused("RANK=1\nMASTER_ADDR=a", "set RANK and not WORLD_SIZE");
    refused("RANK=one\nWORLD_SIZE=2\nMASTER_ADDR=a", "RANK is \"one\"");
    refused("RANK=0\nWORLD_SIZE=2", "set MASTER_ADDR");
    refused("RANK=2\nWORLD_SIZE=2\nMASTER_ADDR=a", "rank 2 of 2");
    refused("SLURM_JOB_ID=1\nSLURM_NTASKS=4", "write `srun octant …`");
    refused("SLURM_JOB_ID=1\nSLURM_STEP_ID=0\nSLURM_PROCID=0", "SLURM_PROCID and not SLURM_NTASKS");
    refused("JOB_COMPLETION_INDEX=0", "set OCTANT_NUM_NODES");
    refused("JOB_COMPLETION_INDEX=0\nOCTANT_NUM_NODES=2", "set OCTANT_COORDINATOR");
    refused("TPU_WORKER_HOSTNAMES=a,b", "TPU_WORKER_ID is not");
    refused("TPU_WORKER_ID=4\nTPU_WORKER_HOSTNAMES=a,b", "has 2 hosts");
    refused("OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2", "give --coordinator HOST");
}

#[test]
fn a_launcher_inside_of_another_is_nested_and_a_contradiction_is_refused() {
    // Two tasks of Slurm, each of which starts four processes by torchrun.
    let torchrun = "RANK=5\nWORLD_SIZE=8\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=4\nMASTER_ADDR=a\nMASTER_PORT=1000";
    let slurm = "SLURM_JOB_ID=1\nSLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_NTASKS=2\nSLURM_STEP_NODELIST=a";
    assert_eq!(find(&format!("{torchrun}\n{slurm}")).unwrap().launcher, Launcher::Torchrun);
    let other = slurm.replace("PROCID=1", "PROCID=0");
    let error = find(&format!("{torchrun}\n{other}")).unwrap_err();
    assert!(error.contains("torchrun says rank 5 of 8, and Slurm says rank 0 of 2"), "{error}");
    // A TPU machine of its own is no pod.
    assert!(find("TPU_WORKER_ID=0\nTPU_WORKER_HOSTNAMES=localhost").unwrap_err().contains("no launcher"));
}
