//! Checkpoints of a state that no process has all of.
//!
//! Every process writes the parts of its own devices, a file per device, in the form that PyTorch's distributed checkpoints read
//! ([`octant_archive::save_shard`]): those of `model.safetensors` in the checkpoint's folder, those of `state.safetensors` in its
//! folder `state`. It is a commit in two phases: only when all processes report that their files are on the disk does the first
//! one write the list of checksums and give the folder its name. Until then the checkpoint before is the newest one.

use super::{CHECKSUMS, CONFIG, Contents, MODEL, PROGRESS, TrainError, checksum, complete, exchange, kept_text};
use octant_archive::{Part, index_name, index_text, save_shard, shard_name};
use octant_cluster::Cluster;
use octant_graph::HostTensor;
use octant_nn::VariableSpec;
use octant_runtime::Shard;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the parts of the state lie, since both archives have files of the same names.
const FOLDER: &str = "state";
/// How long processes may be apart when they write: disks differ, and the first one may still write the one before.
const LONGEST_WRITING: Duration = Duration::from_secs(3600);

/// The parts of one process's devices, by device.
#[derive(Debug, Default)]
pub struct Parts(pub BTreeMap<usize, DeviceParts>);

/// The parts of one device.
#[derive(Debug, Default)]
pub struct DeviceParts {
    /// Of the evaluated variables, with the reference's names and layouts.
    pub model: Vec<Part>,
    /// Of the rest, with names and layouts of the step.
    pub state: Vec<Part>,
}

impl Parts {
    /// Adds the parts of an evaluated variable.
    pub fn add_variable(&mut self, spec: &VariableSpec, shards: Vec<Shard>) -> Result<(), TrainError> {
        for Shard { device, starts, tensor } in shards {
            let no_rectangle = || TrainError::Checkpoint(format!("a part of {} cannot be saved", spec.path));
            let tensor = spec.layout.export(&tensor).ok_or_else(no_rectangle)?;
            let part = Part { name: spec.path.clone(), starts: reference_starts(spec, &starts), tensor };
            self.0.entry(device).or_default().model.push(part);
        }
        Ok(())
    }

    /// Adds a tensor that PyTorch keeps beside a variable.
    pub fn add_beside(&mut self, name: String, tensor: HostTensor) {
        let starts = vec![0; tensor.dims().len()];
        self.0.entry(0).or_default().model.push(Part { name, starts, tensor });
    }

    /// Adds the parts of an entry of the state.
    pub fn add_entry(&mut self, name: &str, shards: Vec<Shard>) {
        for Shard { device, starts, tensor } in shards {
            self.0.entry(device).or_default().state.push(Part { name: name.to_string(), starts, tensor });
        }
    }
}

/// Where a part begins in the reference's layout.
fn reference_starts(spec: &VariableSpec, starts: &[usize]) -> Vec<usize> {
    let dims = |numbers: &[usize]| spec.layout.reference_dims(numbers);
    // Dimensions that exist there alone have the length 1 and begin at 0.
    let extra = dims(&vec![0; starts.len()]);
    dims(starts).into_iter().zip(extra).map(|(start, extra)| start - extra).collect()
}

/// The archive of the state in a checkpoint of parts.
pub(super) fn state_in(path: &Path) -> PathBuf {
    path.join(FOLDER).join(MODEL)
}

/// What a process reports of its files: a checksum and a list of names for each.
struct Written {
    folder: &'static str,
    device: usize,
    names: Vec<String>,
    line: String,
    bytes: u64,
}

/// Writes a checkpoint with all processes of the cluster; `number` counts those that they have begun.
pub(super) fn write(
    folder: &Path,
    name: &str,
    contents: &Contents,
    parts: &Parts,
    cluster: &Cluster,
    number: u64,
) -> Result<(), TrainError> {
    let (leads, key) = (cluster.place().rank == 0, format!("checkpoint/{number}/{name}"));
    let temporary = folder.join(format!("{name}.tmp"));
    let made = if leads { make_folders(&temporary) } else { Ok(()) };
    // Nobody writes before the folder of an earlier attempt is gone.
    exchanged(cluster, &format!("{key}/begin"), made.map(|()| String::new()))?;
    let written = write_parts(&temporary, parts, &contents.metadata);
    let reports = exchanged(cluster, &format!("{key}/written"), written.map(|files| encoded(&files)))?;
    let committed = if leads { commit(folder, name, &temporary, contents, &reports) } else { Ok(()) };
    exchanged(cluster, &format!("{key}/committed"), committed.map(|()| String::new())).map(drop)
}

/// Every process's report, or the first problem of any of them, which all return.
fn exchanged(cluster: &Cluster, name: &str, outcome: Result<String, String>) -> Result<Vec<String>, TrainError> {
    let mine = match outcome {
        Ok(report) => format!("+{report}"),
        Err(problem) => format!("-{problem}"),
    };
    let all = cluster.gather(name, mine.as_bytes(), LONGEST_WRITING)?;
    let report = |(rank, value): (usize, Vec<u8>)| {
        let text = String::from_utf8_lossy(&value).into_owned();
        match text.strip_prefix('+') {
            Some(report) => Ok(report.to_string()),
            None => {
                let problem = text.trim_start_matches('-');
                Err(TrainError::Checkpoint(format!("the checkpoint could not be written: rank {rank}: {problem}")))
            }
        }
    };
    all.into_iter().enumerate().map(report).collect()
}

fn make_folders(temporary: &Path) -> Result<(), String> {
    if temporary.exists() {
        std::fs::remove_dir_all(temporary).map_err(|error| error.to_string())?;
    }
    std::fs::create_dir_all(temporary.join(FOLDER)).map_err(|error| error.to_string())
}

/// Writes the files of this process, and syncs them.
fn write_parts(temporary: &Path, parts: &Parts, metadata: &[(String, String)]) -> Result<Vec<Written>, String> {
    let mut files = Vec::new();
    for (&device, parts) in &parts.0 {
        for (folder, parts) in [("", &parts.model), (FOLDER, &parts.state)] {
            if parts.is_empty() {
                continue;
            }
            save_shard(&temporary.join(folder), device, parts, metadata).map_err(|error| error.to_string())?;
            let file = Path::new(folder).join(shard_name(device));
            let line = checksum(temporary, &file.to_string_lossy())?;
            let names = parts.iter().map(|part| part.name.clone()).collect();
            let bytes = parts.iter().map(|part| part.tensor.bytes().len() as u64).sum();
            files.push(Written { folder, device, names, line, bytes });
        }
    }
    Ok(files)
}

/// A line per file: its folder, device, bytes, checksum and names, with tabs between them.
fn encoded(files: &[Written]) -> String {
    let line = |file: &Written| {
        let Written { folder, device, names, line, bytes } = file;
        format!("{folder}\t{device}\t{bytes}\t{line}\t{}\n", names.join("\t"))
    };
    files.iter().map(line).collect()
}

fn decoded(line: &str) -> Option<Written> {
    let mut words = line.split('\t');
    let folder = if words.next()?.is_empty() { "" } else { FOLDER };
    let (device, bytes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let line = words.next()?.to_string();
    Some(Written { folder, device, bytes, line, names: words.map(str::to_string).collect() })
}

/// The second phase: indexes, checksums, and the name.
fn commit(folder: &Path, name: &str, temporary: &Path, contents: &Contents, reports: &[String]) -> Result<(), String> {
    let files: Option<Vec<Written>> = reports.iter().flat_map(|report| report.lines()).map(decoded).collect();
    let mut files = files.ok_or("a process reported files that cannot be understood")?;
    files.sort_by_key(|file| (file.folder, file.device));
    let mut lines: Vec<String> = files.iter().map(|file| file.line.clone()).collect();
    for of in ["", FOLDER] {
        let of_folder = || files.iter().filter(|file| file.folder == of);
        let listed: Vec<(String, Vec<String>)> =
            of_folder().map(|file| (shard_name(file.device), file.names.clone())).collect();
        let index = Path::new(of).join(index_name(MODEL));
        let text = index_text(&listed, of_folder().map(|file| file.bytes).sum());
        std::fs::write(temporary.join(&index), text).map_err(|error| error.to_string())?;
        lines.push(checksum(temporary, &index.to_string_lossy())?);
    }
    complete(temporary, contents, lines)?;
    debug_assert!([CHECKSUMS, CONFIG, PROGRESS].iter().all(|file| temporary.join(file).exists()));
    let failed = |error: std::io::Error| format!("{error}; {}", kept_text(folder));
    exchange(folder, name, temporary).map(drop).map_err(failed)
}
