//! Whole networks: what `torch.save(model)` and the trainers that do so write. The pickle names the network's classes,
//! which is not needed: every module is a record whose state holds dictionaries of parameters, buffers
//! and further modules, and the names along the way are those of the state dict.

use super::state_dict::{Allowance, describe_others, describe_parts, strip_prefixes};
use super::storages::Storages;
use crate::error::Fault;
use crate::pickle::PickleValue;
use crate::{Archive, ArchiveFormat};

/// Where trainers keep networks, the better one first: averaged weights are what they evaluate and publish.
const USUAL_KEYS: [&str; 3] = ["ema", "model", "net"];

/// Modules inside of modules; networks have fewer than ten levels.
const DEEPEST_NESTING: usize = 64;

/// The network in a pickle, and under which key it lies.
pub(super) fn found<'a>(root: PickleValue<'a>) -> Option<(&'static str, PickleValue<'a>)> {
    let under = |key: &'static str| Some((key, state(root.get(key)?)?));
    state(root).map(|state| ("", state)).or_else(|| USUAL_KEYS.into_iter().find_map(under))
}

/// The state of a module's record.
fn state(value: PickleValue) -> Option<PickleValue> {
    let state = value.as_object()?.state?;
    state.get("_modules").is_some().then_some(state)
}

pub(super) fn read(root: PickleValue, storages: &mut Storages) -> Result<Archive, Fault> {
    let (key, network) = found(root).ok_or_else(|| Fault::damaged("there is no network in it"))?;
    let mut archive =
        Archive { format: ArchiveFormat::TorchZip, found_under: key.to_string(), ..Archive::from(vec![]) };
    let mut allowance = Allowance::of_a_network();
    describe_others(root, key, &mut archive.metadata, &mut allowance)?;
    describe_attributes(network, &mut archive.metadata, &mut allowance)?;
    collect(network, storages, &mut archive, &mut allowance)?;
    if archive.tensors.is_empty() {
        return Err(Fault::damaged("the network in it has no tensors"));
    }
    archive.stripped_prefix = strip_prefixes(&mut archive.tensors);
    Ok(archive)
}

/// What trainers keep in the network itself: its architecture (`yaml`) and the names of its classes.
fn describe_attributes(
    network: PickleValue,
    metadata: &mut Vec<(String, String)>,
    allowance: &mut Allowance,
) -> Result<(), Fault> {
    for attribute in ["yaml", "names"] {
        let Some(value) = network.get(attribute) else { continue };
        if let Some(entries) = value.entries() {
            describe_parts(attribute, entries, metadata, allowance)?;
        }
        if let Some(items) = value.items() {
            describe_parts(attribute, items.enumerate(), metadata, allowance)?;
        }
    }
    Ok(())
}

/// Every parameter and every buffer, in the order of a state dict: a module's own, then those of its parts.
fn collect(
    network: PickleValue,
    storages: &mut Storages,
    archive: &mut Archive,
    allowance: &mut Allowance,
) -> Result<(), Fault> {
    // Modules that wait, the next one last: the prefix of their names, their state, how deep they lie.
    let mut waiting = vec![(String::new(), network, 0)];
    while let Some((prefix, module, depth)) = waiting.pop() {
        for kind in ["_parameters", "_buffers"] {
            let entries = module.get(kind).and_then(PickleValue::entries);
            for (name, value) in entries.into_iter().flatten() {
                let name = format!("{prefix}{name}");
                allowance.spend(&name)?;
                if let Some(tensor) = storages.tensor(value).map_err(|fault| fault.of_tensor(&name))? {
                    archive.tensors.push((name, tensor));
                }
            }
        }
        if depth == DEEPEST_NESTING {
            return Err(Fault::damaged("its modules lie deeper in each other than any network's"));
        }
        let parts: Vec<(PickleValue, PickleValue)> =
            module.get("_modules").and_then(PickleValue::entries).into_iter().flatten().collect();
        for (name, value) in parts.into_iter().rev() {
            let name = format!("{prefix}{name}.");
            allowance.spend(&name)?;
            waiting.extend(state(value).map(|state| (name, state, depth + 1)));
        }
    }
    Ok(())
}
