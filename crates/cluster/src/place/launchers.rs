//! What each launcher sets.

use super::names::{first_host, with_port};
use super::{Launcher, PORT, Place, Variables, refused};
use crate::error::Result;

/// The variables, and the coordinator where the user gave one.
pub(super) struct Environment<'a> {
    pub variables: &'a Variables,
    pub coordinator: Option<&'a str>,
}

/// Looks for one launcher's variables.
type Find = fn(&Environment) -> Result<Option<Place>>;

/// From the innermost to the outermost.
pub(super) const ALL: [Find; 6] = [torchrun, open_mpi, sky_pilot, tpu, kubernetes, slurm];

/// Our own variables, for launchers that tell processes their number only.
const NUM_NODES: &str = "OCTANT_NUM_NODES";
const COORDINATOR: &str = "OCTANT_COORDINATOR";

impl<'a> Environment<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn number(&self, name: &str) -> Result<Option<usize>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => refused(format!("{name} is \"{text}\", and should be a number")),
        }
    }

    /// All of these numbers, none of them, or a sentence about those that are missing.
    fn numbers<const N: usize>(&self, launcher: Launcher, names: [&str; N]) -> Result<Option<[usize; N]>> {
        let mut values = [0; N];
        let mut missing = Vec::new();
        for (value, name) in values.iter_mut().zip(names) {
            match self.number(name)? {
                Some(number) => *value = number,
                None => missing.push(name),
            }
        }
        match missing.len() {
            0 => Ok(Some(values)),
            count if count == N => Ok(None),
            _ => {
                let set: Vec<&str> = names.into_iter().filter(|name| !missing.contains(name)).collect();
                refused(format!(
                    "{launcher} set {} and not {}: start through {launcher}, or unset them",
                    set.join(" and "),
                    missing.join(" and ")
                ))
            }
        }
    }

    /// Where the coordinator runs: as the user gave it, or else as the launcher implies; `hint` says how to give it.
    fn coordinator(&self, implied: Option<String>, port: u16, hint: &str) -> Result<String> {
        match self.coordinator.or(self.text(COORDINATOR)).map(str::to_string).or(implied) {
            Some(name) => with_port(&name, port),
            None => refused(format!("it is not known where rank 0 runs: {hint}")),
        }
    }

    /// The number among the processes of the host, where the launcher says it.
    fn local(&self, rank: &str, ranks: &str) -> Result<(usize, usize)> {
        Ok((self.number(rank)?.unwrap_or(0), self.number(ranks)?.unwrap_or(1)))
    }
}

fn torchrun(environment: &Environment) -> Result<Option<Place>> {
    let Some([rank, ranks]) = environment.numbers(Launcher::Torchrun, ["RANK", "WORLD_SIZE"])? else { return Ok(None) };
    let (local_rank, local_ranks) = environment.local("LOCAL_RANK", "LOCAL_WORLD_SIZE")?;
    let port = environment.number("MASTER_PORT")?.and_then(|port| u16::try_from(port).ok()).unwrap_or(PORT - 1);
    // On its own port torchrun listens itself.
    let port = port.checked_add(1).unwrap_or(PORT);
    let host = environment.text("MASTER_ADDR").map(str::to_string);
    let coordinator = environment.coordinator(host, port, "set MASTER_ADDR, or give --coordinator")?;
    let run = environment.text("TORCHELASTIC_RUN_ID").unwrap_or("torchrun");
    let restarts = environment.number("TORCHELASTIC_RESTART_COUNT")?.unwrap_or(0);
    let attempt = format!("{run}-{restarts}/");
    Ok(Some(Place { rank, ranks, local_rank, local_ranks, coordinator, attempt, launcher: Launcher::Torchrun }))
}

fn open_mpi(environment: &Environment) -> Result<Option<Place>> {
    let names = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"];
    let Some([rank, ranks]) = environment.numbers(Launcher::OpenMpi, names)? else { return Ok(None) };
    let (local_rank, local_ranks) = environment.local("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")?;
    // On one host all processes are here.
    let implied = (local_ranks == ranks).then(|| "127.0.0.1".to_string());
    let hint = "mpirun does not say it; give --coordinator HOST, the first host of mpirun's list";
    let coordinator = environment.coordinator(implied, PORT, hint)?;
    let attempt = format!("mpi-{}/", environment.text("PMIX_NAMESPACE").unwrap_or("0").replace('/', "-"));
    Ok(Some(Place { rank, ranks, local_rank, local_ranks, coordinator, attempt, launcher: Launcher::OpenMpi }))
}

fn sky_pilot(environment: &Environment) -> Result<Option<Place>> {
    let names = ["SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES"];
    let Some([rank, ranks]) = environment.numbers(Launcher::SkyPilot, names)? else { return Ok(None) };
    let addresses: Vec<&str> = environment.text("SKYPILOT_NODE_IPS").unwrap_or_default().split_whitespace().collect();
    if !addresses.is_empty() && addresses.len() != ranks {
        return refused(format!(
            "SKYPILOT_NODE_IPS has {} addresses, and SKYPILOT_NUM_NODES is {ranks}: they should agree",
            addresses.len()
        ));
    }
    let implied = addresses.first().map(|address| address.to_string());
    let coordinator = environment.coordinator(implied, PORT, "set SKYPILOT_NODE_IPS, or give --coordinator")?;
    let attempt = format!("{}/", environment.text("SKYPILOT_TASK_ID").unwrap_or("sky").replace('/', "-"));
    Ok(Some(Place { rank, ranks, local_rank: 0, local_ranks: 1, coordinator, attempt, launcher: Launcher::SkyPilot }))
}

/// Hosts of a pod slice, and slices of several.
fn tpu(environment: &Environment) -> Result<Option<Place>> {
    let id = environment.number("TPU_WORKER_ID")?.or(environment.number("CLOUD_TPU_TASK_ID")?);
    let names = environment.text("TPU_WORKER_HOSTNAMES").or(environment.text("TPU_PROCESS_ADDRESSES"));
    let names: Vec<&str> =
        names.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let worker = match id {
        // A machine of its own has these variables too.
        None if names.len() <= 1 => return Ok(None),
        Some(_) if names.is_empty() => return Ok(None),
        None => return refused("TPU_WORKER_HOSTNAMES is set and TPU_WORKER_ID is not: set both, or neither"),
        Some(id) => id,
    };
    if worker >= names.len() {
        let hosts = names.len();
        return refused(format!(
            "TPU_WORKER_ID is {worker}, and TPU_WORKER_HOSTNAMES has {hosts} hosts: set both for the same slice"
        ));
    }
    let slices = environment.numbers(Launcher::Tpu, ["MEGASCALE_SLICE_ID", "MEGASCALE_NUM_SLICES"])?;
    let [slice, slices] = slices.unwrap_or([0, 1]);
    let ranks = slices * names.len();
    if ranks == 1 {
        return Ok(None);
    }
    let host = |name: &str| name.rsplit_once(':').map_or(name, |(host, _)| host).to_string();
    let implied = match slices {
        1 => names.first().map(|name| host(name)),
        _ => environment.text("MEGASCALE_COORDINATOR_ADDRESS").map(host),
    };
    let coordinator =
        environment.coordinator(implied, PORT, "set MEGASCALE_COORDINATOR_ADDRESS, or give --coordinator")?;
    let (rank, attempt) = (slice * names.len() + worker, "tpu/".into());
    Ok(Some(Place { rank, ranks, local_rank: 0, local_ranks: 1, coordinator, attempt, launcher: Launcher::Tpu }))
}

fn kubernetes(environment: &Environment) -> Result<Option<Place>> {
    let Some(rank) = environment.number("JOB_COMPLETION_INDEX")? else { return Ok(None) };
    let Some(ranks) = environment.number(NUM_NODES)? else {
        return refused(format!(
            "JOB_COMPLETION_INDEX is set, but Kubernetes does not say how many pods there are: set {NUM_NODES} in the manifest, \
             as those of `octant launch` do"
        ));
    };
    // Pods of an indexed Job are called NAME-INDEX; those of one service find each other by these names.
    let first = environment
        .text("HOSTNAME")
        .and_then(|name| name.rsplit_once('-'))
        .filter(|(_, index)| *index == rank.to_string());
    let service = environment.text("OCTANT_SERVICE");
    let implied = first.map(|(name, _)| service.map_or(format!("{name}-0"), |service| format!("{name}-0.{service}")));
    let hint = format!(
        "set {COORDINATOR} in the manifest to the first pod's name and service, as those of `octant launch` do"
    );
    let coordinator = environment.coordinator(implied, PORT, &hint)?;
    let attempt = format!("k8s-{}/", environment.text("JOBSET_RESTART_ATTEMPT").unwrap_or("0"));
    Ok(Some(Place { rank, ranks, local_rank: 0, local_ranks: 1, coordinator, attempt, launcher: Launcher::Kubernetes }))
}

fn slurm(environment: &Environment) -> Result<Option<Place>> {
    let Some(job) = environment.number("SLURM_JOB_ID")? else { return Ok(None) };
    // In a batch script, outside of srun, there is one process whatever the number of tasks.
    if environment.text("SLURM_STEP_ID").is_none() {
        return match environment.number("SLURM_NTASKS")? {
            Some(tasks) if tasks > 1 => refused(format!(
                "this process runs in a Slurm job of {tasks} tasks, but was not started by srun: write `srun octant …` in the script"
            )),
            _ => Ok(None),
        };
    }
    let tasks =
        if environment.text("SLURM_STEP_NUM_TASKS").is_some() { "SLURM_STEP_NUM_TASKS" } else { "SLURM_NTASKS" };
    let Some([rank, ranks]) = environment.numbers(Launcher::Slurm, ["SLURM_PROCID", tasks])? else { return Ok(None) };
    let local_rank = environment.number("SLURM_LOCALID")?.unwrap_or(0);
    let local_ranks = tasks_here(environment)?.unwrap_or(1).max(local_rank + 1);
    let nodes = environment.text("SLURM_STEP_NODELIST").or(environment.text("SLURM_NODELIST"));
    let port = (job % 4096 + 61440) as u16;
    let coordinator = environment.coordinator(
        nodes.and_then(first_host),
        port,
        "SLURM_STEP_NODELIST has no host; give --coordinator",
    )?;
    let step = environment.text("SLURM_STEP_ID").unwrap_or("0");
    let attempt = format!("{job}.{step}-{}/", environment.number("SLURM_RESTART_COUNT")?.unwrap_or(0));
    Ok(Some(Place { rank, ranks, local_rank, local_ranks, coordinator, attempt, launcher: Launcher::Slurm }))
}

/// How many tasks of the step this node has: `SLURM_STEP_TASKS_PER_NODE` is `4(x2),3` for nodes of 4, 4 and 3.
fn tasks_here(environment: &Environment) -> Result<Option<usize>> {
    let (Some(list), Some(node)) = (environment.text("SLURM_STEP_TASKS_PER_NODE"), environment.number("SLURM_NODEID")?)
    else {
        return Ok(None);
    };
    let mut first = 0;
    for part in list.split(',') {
        let (tasks, nodes) =
            part.split_once("(x").map_or((part, "1"), |(tasks, nodes)| (tasks, nodes.trim_end_matches(')')));
        let (Ok(tasks), Ok(nodes)) = (tasks.parse(), nodes.parse::<usize>()) else {
            return refused(format!("SLURM_STEP_TASKS_PER_NODE is \"{list}\", and should be a list such as 4(x2),3"));
        };
        first += nodes;
        if node < first {
            return Ok(Some(tasks));
        }
    }
    Ok(None)
}
