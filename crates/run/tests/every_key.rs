//! No key of a recipe is accepted and ignored: for every task, each one changes what is compiled, executed, written or reported, or
//! it is refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod keys;
mod recording;

use keys::{BASES, ELSEWHERE, READ, ROWS};
use octant_recipe::{LocalFiles, Recipe, set_text};
use octant_run::{Observer, RunEvent, TrainJob};
use octant_runtime::Backend;
use octant_train::options::{OptionSpec, OptionTable};
use recording::{Record, Recorder, hashed};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Tests whose loaders would be counted with those of another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Everything that a run does and prints. The settings themselves are no part of it: keeping a value is no effect.
#[derive(Debug, PartialEq)]
struct Effects {
    executed: Record,
    printed: Vec<String>,
    written: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Printed(Vec<String>);

impl Observer for Printed {
    fn event(&mut self, event: &RunEvent) {
        self.0.extend(match event {
            RunEvent::Message(text) | RunEvent::Warning(text) => Some(text.to_string()),
            RunEvent::Phase(phase) => Some(format!("{} {} {}", phase.name, phase.epochs, phase.frozen)),
            RunEvent::EpochBegins { epochs, steps, .. } => Some(format!("{epochs} epochs of {steps} steps")),
            RunEvent::Checkpoint { step } => Some(format!("checkpoint at {step}")),
            RunEvent::Started(_)
            | RunEvent::Planned(_)
            | RunEvent::Step(_)
            | RunEvent::Loss { .. }
            | RunEvent::Validated { .. }
            | RunEvent::Epoch(_)
            | RunEvent::Recorded { .. }
            | RunEvent::Ended(_) => None,
        });
    }
}

/// A folder, in memory where there is one: checkpoints are synced, which disks take long for.
fn temporary() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// The effects of a recipe with some changes, or why it is refused.
fn effects(data: &Path, base: &str, changes: &[&str]) -> Result<Effects, String> {
    let folder = temporary();
    let refusal = |error: &dyn std::fmt::Display| error.to_string();
    let text = base.replace("DATA", &data.display().to_string());
    let mut table = text.parse().unwrap();
    for change in changes {
        let change = change.replace("DATA", &data.display().to_string());
        set_text(&mut table, &change).map_err(|error| refusal(&error))?;
    }
    let mut job = TrainJob::from_table(table, None).map_err(|error| refusal(&error))?;
    job.folder = folder.path().join("runs");
    let recorder = Recorder::default();
    let files = LocalFiles { cache: folder.path().join("cache") };
    let mut printed = Printed::default();
    job.train(&recorder.clone().shared(), &files, &mut printed).map_err(|error| refusal(&error))?;
    let mut written = BTreeMap::new();
    list(folder.path(), folder.path(), &mut written);
    let own = folder.path().display().to_string();
    let printed = printed.0.into_iter().map(|text| text.replace(&own, "")).collect();
    Ok(Effects { executed: recorder.record(), printed, written })
}

/// Files by name; with a hash of what is neither a time nor a setting in them.
fn list(top: &Path, folder: &Path, written: &mut BTreeMap<String, u64>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(top, &path, written);
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap();
        let hash = match name {
            "config.toml" | "history.toml" => continue,
            "metrics.csv" | "held_out.txt" => hashed(std::fs::read(&path).unwrap()),
            _ if name.ends_with(".png") => hashed(std::fs::read(&path).unwrap()),
            _ if name.contains("tfevents") => hashed(tags(&path)),
            _ => 0,
        };
        let name = if name.contains("tfevents") { "events" } else { name };
        let below = path.parent().unwrap().strip_prefix(top).unwrap().display().to_string();
        written.insert(format!("{below}/{name}"), hash);
    }
}

/// The steps and tags of an event file.
fn tags(path: &Path) -> Vec<(i64, Vec<String>)> {
    let events = octant_events::read_run(path.parent().unwrap()).unwrap();
    let tags = |event: octant_events::Event| match event.content {
        octant_events::EventContent::Values(values) => {
            Some((event.step, values.into_iter().map(|(tag, _)| tag).collect()))
        }
        _ => None,
    };
    events.into_iter().filter_map(tags).collect()
}

/// All keys of recipes, with `*` for the number of a phase or group.
fn known_keys(specs: Vec<OptionSpec>, above: &str, found: &mut BTreeSet<String>) {
    for spec in specs {
        let key = format!("{above}{}", spec.key);
        let below = format!("{key}{}", if spec.is_list { ".*." } else { "." });
        if spec.inner.is_empty() {
            found.insert(key);
        }
        known_keys(spec.inner, &below, found);
    }
}

fn key_of(change: &str) -> String {
    let key = change.split('=').next().unwrap();
    let part = |part: &str| if part.parse::<usize>().is_ok() { "*".to_string() } else { part.to_string() };
    key.split('.').map(part).collect::<Vec<_>>().join(".")
}

#[test]
fn every_key_has_a_row_and_every_row_a_key() {
    let mut known = BTreeSet::new();
    known_keys(Recipe::specs(), "", &mut known);
    let elsewhere = ELSEWHERE.iter().map(|(key, _)| key.to_string());
    let tried: BTreeSet<String> = ROWS.iter().map(|row| key_of(row.change)).chain(elsewhere).collect();
    let is_table = |key: &&String| known.iter().any(|known| known.starts_with(&format!("{key}.")));
    let untried: Vec<_> = known.difference(&tried).collect();
    let unknown: Vec<_> = tried.difference(&known).filter(|key| !is_table(key)).collect();
    assert!(untried.is_empty() && unknown.is_empty(), "no row for {untried:?}, no key for {unknown:?}");
}

/// Changes that are tried for one task, where the same keys are given.
struct Group {
    task: &'static str,
    base: &'static str,
    given: &'static [&'static str],
    changes: Vec<&'static str>,
}

fn groups() -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (task, base) in BASES {
        for row in ROWS.iter().filter(|row| row.tasks.is_empty() || row.tasks.contains(&task)) {
            match groups.iter_mut().find(|group| group.task == task && group.given == row.given) {
                Some(group) => group.changes.push(row.change),
                None => groups.push(Group { task, base, given: row.given, changes: vec![row.change] }),
            }
        }
    }
    groups
}

/// Does the work on all items, on a few threads.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = work(item);
            done.lock().unwrap().push((index, result));
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(worker))));
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// What came of one change.
enum Outcome {
    Used(String),
    Ignored(String),
    Refused,
}

/// Tries one change against what the run does without it.
fn attempt(data: &Path, group: &Group, without: &Effects, change: &str) -> Outcome {
    match effects(data, group.base, &[group.given, &[change]].concat()) {
        Ok(with) if with == *without => Outcome::Ignored(format!("{}: {change} {:?}", group.task, group.given)),
        Ok(_) => Outcome::Used(key_of(change)),
        Err(refusal) => {
            println!("{} {change}: {refusal}", group.task);
            Outcome::Refused
        }
    }
}

#[test]
fn no_key_is_accepted_and_ignored() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let data = temporary();
    keys::write_data(data.path());
    // Samples do not depend on who prepares them, so nothing else shows this one.
    #[cfg(target_os = "linux")]
    assert!(loader_threads("workers=1") < loader_threads("workers=3"));
    let repeated = in_parallel(&BASES, |(_, base)| [(); 2].map(|()| effects(data.path(), base, &[])));
    for ((task, _), [first, second]) in BASES.iter().zip(&repeated) {
        assert!(first.is_ok(), "{task}: {first:?}");
        assert_eq!(first, second, "{task} is not the same twice");
    }
    // A key that runs do not read is noticed: `about` is for lists of recipes.
    let [plain, _] = &repeated[0];
    assert_eq!(&effects(data.path(), BASES[0].1, &["about='nothing'"]), plain);
    let groups = groups();
    // Where the given keys are for another task, there is nothing to compare with.
    let without = in_parallel(&groups, |group| effects(data.path(), group.base, group.given).ok());
    let compared = groups.iter().zip(&without).filter_map(|(group, without)| Some((group, without.as_ref()?)));
    let attempts: Vec<(&Group, &Effects, &str)> = compared
        .flat_map(|(group, without)| group.changes.iter().map(move |change| (group, without, *change)))
        .collect();
    let (mut used, mut ignored) = (BTreeSet::new(), BTreeSet::new());
    for outcome in in_parallel(&attempts, |(group, without, change)| attempt(data.path(), group, without, change)) {
        match outcome {
            Outcome::Used(key) => drop(used.insert(key)),
            Outcome::Ignored(change) => drop(ignored.insert(change)),
            Outcome::Refused => {}
        }
    }
    assert!(ignored.is_empty(), "accepted and ignored: {ignored:#?}");
    let never: BTreeSet<String> = ROWS
        .iter()
        .map(|row| key_of(row.change))
        .filter(|key| !used.contains(key) && !READ.contains(&&**key))
        .collect();
    assert!(never.is_empty(), "refused for every task: {never:?}");
}

#[test]
fn a_batch_larger_than_the_data_was_padded_without_a_word() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let data = temporary();
    let run = |last: &str| effects(data.path(), BASES[0].1, &["batch_size=100000", last]);
    let printed = run("last_batch='pad'").unwrap().printed;
    let has = |sentence: &str| printed.iter().any(|text| text.contains(sentence));
    assert!(has("steps of 14 images instead of 100000: there are no more training images"), "{printed:?}");
    assert!(has("2 epochs of 1 steps"), "{printed:?}");
    let refusal = run("last_batch='drop'").unwrap_err();
    assert!(refusal.starts_with("a batch of 100000 cannot be filled from 14 training images"), "{refusal}");
}

/// The threads of loaders while a run with that setting is under way.
#[cfg(target_os = "linux")]
fn loader_threads(workers: &str) -> usize {
    let folder = temporary();
    let mut table = BASES[0].1.parse().unwrap();
    set_text(&mut table, workers).unwrap();
    let job = TrainJob::from_table(table, None).unwrap().in_directory(folder.path().join("run"));
    let mut most = 0;
    let mut count = |_: &RunEvent| {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        most = most.max(names.filter(|name| name.starts_with("loader-")).count());
    };
    let files = LocalFiles { cache: folder.path().join("cache") };
    job.train(&Recorder::default().shared(), &files, &mut count).unwrap();
    most
}
