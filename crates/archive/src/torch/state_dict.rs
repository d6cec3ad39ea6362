//! Finding the dictionary of tensors in a checkpoint.

use super::storages::{Storages, tensor_record};
use crate::error::Fault;
use crate::numpy_array;
use crate::pickle::PickleValue;
use crate::{Archive, ArchiveFormat};
use octant_tensor::HostTensor;
use std::path::Path;

/// Where training programs keep the weights of their checkpoints, the first found counts. Averages come last: they are
/// another set of weights, and can be opened from a file that has only them.
const USUAL_KEYS: [&str; 9] = [
    "state_dict",
    "model_state_dict",
    "model",
    "net",
    "params",
    "params_ema",
    "model_ema",
    "state_dict_ema",
    "ema_state_dict",
];

/// What wrappers of a model put before every name.
const PREFIXES: [&str; 2] = ["module.", "_orig_mod."];

const DEEPEST_NESTING: usize = 8;

/// What names and descriptions may take: far more than any network needs, and far less than a dictionary that contains
/// one other dictionary, or one long text, exponentially often.
pub(super) struct Allowance {
    entries: usize,
    text: usize,
}

impl Allowance {
    pub fn of_a_network() -> Allowance {
        Allowance { entries: 1_000_000, text: 64 << 20 }
    }

    pub fn spend(&mut self, text: &str) -> Result<(), Fault> {
        let left = self.entries.checked_sub(1).zip(self.text.checked_sub(text.len()));
        (self.entries, self.text) =
            left.ok_or_else(|| Fault::damaged("it has more and longer names than any network"))?;
        Ok(())
    }
}

pub(super) fn read(format: ArchiveFormat, root: PickleValue, storages: &mut Storages) -> Result<Archive, Fault> {
    let mut archive = Archive { format, ..Archive::from(vec![]) };
    if let Some(tensor) = storages.tensor(root)? {
        archive.tensors.push(("tensor".into(), tensor));
        return Ok(archive);
    }
    let mut allowance = Allowance::of_a_network();
    let (path, dict) = innermost(root, &mut archive.metadata, &mut allowance)?;
    archive.found_under = path.join(".");
    collect(dict, storages, &mut archive, &mut allowance)?;
    if archive.tensors.is_empty() {
        return Err(Fault::Damaged(format!("there are no tensors in it, only a {root}")));
    }
    archive.stripped_prefix = strip_prefixes(&mut archive.tensors);
    Ok(archive)
}

/// Descends as long as a usual key leads to another dictionary; the other entries become metadata.
fn innermost<'a>(
    root: PickleValue<'a>,
    metadata: &mut Vec<(String, String)>,
    allowance: &mut Allowance,
) -> Result<(Vec<&'static str>, PickleValue<'a>), Fault> {
    let (mut path, mut dict) = (Vec::new(), root);
    while path.len() < DEEPEST_NESTING {
        let is_weights = |value: &PickleValue| value.entries().is_some_and(|entries| entries.len() > 0);
        let next = USUAL_KEYS.into_iter().find_map(|key| Some((key, dict.get(key).filter(is_weights)?)));
        let Some((key, inner)) = next else { break };
        describe_others(dict, key, metadata, allowance)?;
        path.push(key);
        dict = inner;
    }
    Ok((path, dict))
}

/// Adds the entries of a dictionary to the metadata, except the one that holds the weights; the numbers and texts of a
/// dictionary inside of it come under dotted names, such as `train_args.imgsz`.
pub(super) fn describe_others(
    dict: PickleValue,
    weights: &str,
    metadata: &mut Vec<(String, String)>,
    allowance: &mut Allowance,
) -> Result<(), Fault> {
    for (name, value) in dict.entries().into_iter().flatten() {
        let (name, text) = (name.to_string(), describe(value));
        allowance.spend(&name)?;
        allowance.spend(&text)?;
        if name == weights {
            continue;
        }
        if let Some(entries) = value.entries() {
            describe_parts(&name, entries, metadata, allowance)?;
        }
        metadata.push((name, text));
    }
    Ok(())
}

/// Adds the numbers and strings among these entries under dotted names.
pub(super) fn describe_parts<'a, Key: std::fmt::Display>(
    name: &str,
    entries: impl Iterator<Item = (Key, PickleValue<'a>)>,
    metadata: &mut Vec<(String, String)>,
    allowance: &mut Allowance,
) -> Result<(), Fault> {
    for (key, value) in entries.filter(|(_, value)| is_plain(*value)) {
        let (key, text) = (format!("{name}.{key}"), value.to_string());
        allowance.spend(&key)?;
        allowance.spend(&text)?;
        metadata.push((key, text));
    }
    Ok(())
}

/// Whether a value is a number, a bool or a string.
fn is_plain(value: PickleValue) -> bool {
    value.as_str().is_some() || value.as_f64().is_some() || value.as_bool().is_some()
}

/// Every tensor in a dictionary, and in the dictionaries inside it under dotted names.
fn collect(
    dict: PickleValue,
    storages: &mut Storages,
    archive: &mut Archive,
    allowance: &mut Allowance,
) -> Result<(), Fault> {
    let Some(entries) = dict.entries() else { return Ok(()) };
    // Dictionaries that were begun, innermost last: the prefix of their names and what is left of them.
    let mut begun = vec![(String::new(), entries)];
    while let Some((prefix, rest)) = begun.last_mut() {
        let Some((key, value)) = rest.next() else {
            begun.pop();
            continue;
        };
        let name = match key.as_str() {
            Some(text) => [prefix.as_str(), text].concat(),
            None => format!("{prefix}{key}"),
        };
        allowance.spend(&name)?;
        if let Some(tensor) = storages.tensor(value).map_err(|fault| fault.of_tensor(&name))? {
            archive.tensors.push((name, tensor));
            continue;
        }
        match value.entries() {
            Some(entries) if entries.len() > 0 && begun.len() < DEEPEST_NESTING => {
                begun.push((format!("{name}."), entries));
            }
            _ => {
                let text = describe(value);
                allowance.spend(&text)?;
                archive.metadata.push((name, text));
            }
        }
    }
    Ok(())
}

/// One line about something that is not loaded.
fn describe(value: PickleValue) -> String {
    let is_numpy_scalar = value.as_object().is_some_and(|object| object.name == "scalar");
    if is_numpy_scalar && let Ok(scalar) = numpy_array(value, Path::new("")) {
        return format!("{:?}", scalar.to_f64s()[0]);
    }
    if tensor_record(value).is_some() { "a tensor".into() } else { value.to_string() }
}

/// Removes the wrappers' prefixes when every name has them; the counter of an averaged model stands outside its wrapper.
pub(super) fn strip_prefixes(tensors: &mut [(String, HostTensor)]) -> String {
    const MOST_WRAPPERS: usize = 8;
    let mut stripped = String::new();
    let wrapped = |name: &str, prefix: &str| name.starts_with(prefix) || name == "n_averaged";
    let wraps_all = |tensors: &[(String, HostTensor)], prefix: &str| {
        tensors.iter().all(|(name, _)| wrapped(name, prefix))
            && tensors.iter().any(|(name, _)| name.starts_with(prefix))
    };
    for _ in 0..MOST_WRAPPERS {
        let Some(prefix) = PREFIXES.into_iter().find(|prefix| wraps_all(tensors, prefix)) else { break };
        for (name, _) in tensors.iter_mut().filter(|(name, _)| name.starts_with(prefix)) {
            name.drain(..prefix.len());
        }
        stripped.push_str(prefix);
    }
    stripped
}
