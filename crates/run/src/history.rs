//! Settings and data of a run that change when it is resumed.
//!
//! `config.toml` holds the settings that are in force. `history.toml` holds what was in force before: at which step which
//! key changed from what to what. `data.toml` holds fingerprints of the samples, so that a file that was added or removed
//! does not go unnoticed.

use crate::{Result, RunError};
use octant_data::Dataset;
use octant_events::{RunDirectory, crc32c};
use octant_recipe::Recipe;
use octant_train::checkpoint::Checkpoint;
use octant_train::options::OptionTable;
use octant_train::{RunProgress, checkpoint};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use toml::{Table, Value};

/// A key of the recipe that has another value since a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The key, such as `phases.0.schedule.lr`.
    pub key: String,
    /// The value until then; none where the key was not there.
    pub before: Option<Value>,
    /// The value since; none where the key is gone.
    pub after: Option<Value>,
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let text = |value: &Option<Value>| value.as_ref().map_or_else(|| "unset".into(), Value::to_string);
        write!(f, "{} from {} to {}", self.key, text(&self.before), text(&self.after))
    }
}

/// What differs between two recipes, by key.
pub fn changes(before: &Table, after: &Table) -> Vec<SettingChange> {
    let [before, after] = [before, after].map(flattened);
    let value = |table: &[(String, Value)], key: &str| {
        table.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    };
    let removed = before.iter().filter(|(key, _)| value(&after, key).is_none()).map(|(key, _)| key);
    let keys = after.iter().map(|(key, _)| key).chain(removed);
    let all =
        keys.map(|key| SettingChange { key: key.clone(), before: value(&before, key), after: value(&after, key) });
    all.filter(|change| change.before != change.after).collect()
}

pub(crate) fn flattened(table: &Table) -> Vec<(String, Value)> {
    fn flatten(prefix: &str, value: &Value, into: &mut Vec<(String, Value)>) {
        let name = |key: &str| if prefix.is_empty() { key.to_string() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(table) => table.iter().for_each(|(key, value)| flatten(&name(key), value, into)),
            Value::Array(list) if list.iter().any(Value::is_table) => {
                list.iter().enumerate().for_each(|(index, value)| flatten(&name(&index.to_string()), value, into));
            }
            value => into.push((prefix.to_string(), value.clone())),
        }
    }
    let mut keys = Vec::new();
    flatten("", &Value::Table(table.clone()), &mut keys);
    keys
}

/// The samples of a split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Fingerprint {
    images: usize,
    /// Of where all samples come from, relative to the folder that holds them, in their order.
    fingerprint: String,
}

impl Fingerprint {
    fn of(dataset: &dyn Dataset) -> Fingerprint {
        let locations: Vec<String> = (0..dataset.len()).map(|index| dataset.location(index)).collect();
        let common = locations.iter().skip(1).fold(locations.first().map_or("", String::as_str), |common, other| {
            let same = common.bytes().zip(other.bytes()).take_while(|(left, right)| left == right).count();
            // A separator is ASCII, so that the cut is between characters.
            &common[..common.as_bytes()[..same].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1)]
        });
        let names: Vec<&str> = locations.iter().map(|location| &location[common.len().min(location.len())..]).collect();
        let fingerprint = format!("{:08x}", crc32c(names.join("\n").as_bytes()));
        Fingerprint { images: dataset.len(), fingerprint }
    }

    /// How it differs from an earlier one, as the rest of a sentence.
    fn difference(&self, before: &Fingerprint) -> Option<String> {
        match self.images == before.images {
            _ if self == before => None,
            true => Some("other samples than it had".into()),
            false => Some(format!("{} images, it had {}", self.images, before.images)),
        }
    }
}

/// Both splits of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SampleLists {
    train: Fingerprint,
    valid: Fingerprint,
}

const DATA: &str = "data.toml";
const HISTORY: &str = "history.toml";
/// What a history that cannot be read is renamed to.
const DAMAGED: &str = "history.damaged.toml";

impl SampleLists {
    pub fn of(data: &octant_recipe::Data) -> SampleLists {
        SampleLists { train: Fingerprint::of(&*data.train), valid: Fingerprint::of(&*data.valid) }
    }

    /// Those of the training and the validation split.
    pub fn fingerprints(&self) -> [&str; 2] {
        [&self.train.fingerprint, &self.valid.fingerprint]
    }

    /// Those of the run that is there, or why they cannot be read; runs of earlier versions have none.
    fn read(run: &Path) -> (Option<SampleLists>, Option<String>) {
        let Ok(text) = std::fs::read_to_string(run.join(DATA)) else { return (None, None) };
        match toml::from_str(&text) {
            Ok(lists) => (Some(lists), None),
            Err(error) => (None, Some(format!("{DATA} is damaged ({}): samples are not compared", error.message()))),
        }
    }
}

/// Settings that are not as they were when a checkpoint was written.
pub(crate) fn changes_since(checkpoint: &Checkpoint, recipe: &Recipe) -> Vec<SettingChange> {
    let config = std::fs::read_to_string(checkpoint.path.join(checkpoint::CONFIG)).unwrap_or_default();
    // Defaults that were added since do not count as changes.
    let before = config.parse().ok().and_then(|table: Table| octant_recipe::check(table).ok());
    before.map(|before| changes(&before.to_table(), &recipe.to_table())).unwrap_or_default()
}

/// What is not as it was when a checkpoint was written.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    pub settings: Vec<SettingChange>,
    /// Sentences about the data, the training split's first.
    pub train: Option<String>,
    pub valid: Option<String>,
    /// Why the data could not be compared.
    pub unknown: Option<String>,
}

impl Difference {
    pub fn of(run: &Path, checkpoint: &Checkpoint, recipe: &Recipe, samples: &SampleLists) -> Difference {
        let settings = changes_since(checkpoint, recipe);
        let (before, unknown) = SampleLists::read(run);
        let of = |name: &str, split: fn(&SampleLists) -> &Fingerprint| {
            let difference = split(samples).difference(split(before.as_ref()?))?;
            Some(format!("the {name} data has {difference}"))
        };
        Difference {
            settings,
            train: of("training", |lists| &lists.train),
            valid: of("validation", |lists| &lists.valid),
            unknown,
        }
    }

    /// Refuses what would train on images twice or not at all: another order of samples inside of a pass over the data, and
    /// other training data.
    pub fn refuse_inexact(&self, progress: &RunProgress) -> Result<()> {
        let again = "`allow_changed` resumes all the same";
        if let Some(train) = &self.train {
            return Err(RunError::Refused(format!(
                "{train}: the run cannot resume exactly; restore it, start a new run, or {again}"
            )));
        }
        const ORDER: [&str; 7] =
            ["batch_size", "batch_schedule", "seed", "last_batch", "sampling", "data.streams", "data.window"];
        let is_inside = progress.position.batch > 0 || progress.position.skipped > 0;
        let change = self.settings.iter().find(|change| is_inside && ORDER.contains(&change.key.as_str()));
        match change {
            Some(change) => Err(RunError::Refused(format!(
                "`{}` changed inside of an epoch, at step {}: some images would be trained on twice and others not at all; \
                 change it after the epoch, or {again}",
                change.key, progress.step
            ))),
            None => Ok(()),
        }
    }

    /// Which settings changed, in a sentence; none if none did.
    pub fn settings_text(&self, step: u64) -> Option<String> {
        let settings: Vec<String> = self.settings.iter().map(SettingChange::to_string).collect();
        (!settings.is_empty()).then(|| format!("changed since step {step}: {}", settings.join(", ")))
    }

    /// What is wrong with data that changed, in sentences.
    pub fn warnings(&self, step: u64) -> impl Iterator<Item = String> {
        let inexact = |text| format!("{text}: this run cannot be repeated exactly");
        let incomparable = move |text| format!("{text}: its metrics cannot be compared with those before step {step}");
        self.train.iter().map(inexact).chain(self.valid.iter().map(incomparable)).chain(self.unknown.clone())
    }
}

/// Changes that were made when the run was resumed.
#[derive(Debug, Default, Serialize, Deserialize)]
struct History {
    #[serde(default)]
    resumed: Vec<Resumption>,
}

impl History {
    /// The history of a run. One that cannot be read is kept under another name, and a new one begins.
    fn read(run: &Path) -> Result<(History, Option<String>)> {
        let path = run.join(HISTORY);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Default::default()),
            text => text.map_err(|source| RunError::File { path: path.clone(), source })?,
        };
        match toml::from_str(&text) {
            Ok(history) => Ok((history, None)),
            Err(error) => {
                std::fs::rename(&path, run.join(DAMAGED)).map_err(|source| RunError::File { path, source })?;
                let reason = error.message();
                Ok((History::default(), Some(format!("{HISTORY} is damaged ({reason}): it is {DAMAGED} now"))))
            }
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Resumption {
    /// From this step on the new values hold.
    step: u64,
    #[serde(default)]
    data: Vec<String>,
    #[serde(default)]
    changed: Vec<SettingChange>,
}

/// Keeps what a resumed run changes, and the fingerprints of its data. What was changed after the checkpoint, in steps that
/// are done again now, is forgotten. Returns a warning where the history that is there cannot be read.
pub(crate) fn keep(
    directory: &RunDirectory,
    samples: &SampleLists,
    resumed: Option<(u64, &Difference)>,
) -> Result<Option<String>> {
    let unwritable = |error: toml::ser::Error| RunError::Refused(format!("the history cannot be written: {error}"));
    directory.write(DATA, toml::to_string(samples).map_err(unwritable)?)?;
    let Some((step, difference)) = resumed else { return Ok(None) };
    let (mut history, warning) = History::read(directory.path())?;
    let known = history.resumed.len();
    history.resumed.retain(|resumption| resumption.step <= step);
    let is_cut = history.resumed.len() < known;
    let data: Vec<String> = difference.train.iter().chain(&difference.valid).cloned().collect();
    let is_changed = !difference.settings.is_empty() || !data.is_empty();
    if is_changed {
        history.resumed.push(Resumption { step, data, changed: difference.settings.clone() });
    }
    if is_changed || is_cut {
        directory.write(HISTORY, toml::to_string(&history).map_err(unwritable)?)?;
    }
    Ok(warning)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
mod tests {
    use super::*;

    #[test]
    fn nested_keys_that_differ_are_named_with_both_values() {
        let table = |text: &str| text.parse::<Table>().unwrap();
        let before = table("seed = 1\n[[phases]]\nname = \"a\"\nschedule = { lr = 0.1 }");
        let after = table("seed = 1\nema = 0.9\n[[phases]]\nname = \"a\"\nschedule = { lr = 0.2 }");
        let named: Vec<String> = changes(&before, &after).iter().map(SettingChange::to_string).collect();
        assert_eq!(named, ["ema from unset to 0.9", "phases.0.schedule.lr from 0.1 to 0.2"]);
        assert!(changes(&after, &after).is_empty());
    }

    struct Files(Vec<&'static str>);

    impl Dataset for Files {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn get(&self, _: usize) -> Result<octant_data::Sample, octant_data::DataError> {
            unreachable!("nothing is read")
        }
        fn location(&self, index: usize) -> String {
            self.0[index].to_string()
        }
    }

    #[test]
    fn a_removed_file_is_noticed_and_a_moved_folder_is_the_same_data() {
        let first = Fingerprint::of(&Files(vec!["/a/cat/1.png", "/a/cat/2.png", "/a/dog/1.png"]));
        let moved = Fingerprint::of(&Files(vec!["/b/c/cat/1.png", "/b/c/cat/2.png", "/b/c/dog/1.png"]));
        assert_eq!(moved.difference(&first), None);
        let fewer = Fingerprint::of(&Files(vec!["/a/cat/1.png", "/a/dog/1.png"]));
        assert_eq!(fewer.difference(&first), Some("2 images, it had 3".into()));
        let other = Fingerprint::of(&Files(vec!["/a/cat/1.png", "/a/cat/3.png", "/a/dog/1.png"]));
        assert_eq!(other.difference(&first), Some("other samples than it had".into()));
    }

    #[test]
    fn a_damaged_history_was_replaced_without_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at(HISTORY), "resumed = 7").unwrap();
        std::fs::write(at(DATA), "?").unwrap();
        let (history, warning) = History::read(folder.path()).unwrap();
        assert!(history.resumed.is_empty() && warning.unwrap().contains("it is history.damaged.toml now"));
        assert_eq!(std::fs::read_to_string(at(DAMAGED)).unwrap(), "resumed = 7");
        let (lists, warning) = SampleLists::read(folder.path());
        assert!(lists.is_none() && warning.unwrap().starts_with("data.toml is damaged"));
        std::fs::remove_file(at(DATA)).unwrap();
        assert_eq!((SampleLists::read(folder.path()), History::read(folder.path()).unwrap().1), ((None, None), None));
    }
}
