//! No argument is accepted and ignored: each changes what a command prints or writes, or is refused, or the command prints why
//! it has no effect. `every_argument.txt` has rows for every argument of the program; keys of recipes, which are flags of `train`
//! too, are tried in crates/run/tests/every_key.rs.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![cfg(unix)]

mod binary;
#[path = "every_argument/files.rs"]
mod files;
#[path = "every_argument/running.rs"]
mod running;
#[path = "every_argument/table.rs"]
mod table;

use binary::{done, octant};
use running::{Left, left};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use table::{Kind, Row, Table, table};

/// Everything that rows name, made once.
fn write_fixtures(at: &Path, set_up: &[Vec<String>]) {
    for words in set_up {
        done(at, &words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let copy = |from: &str, to: &str| assert!(std::fs::copy(at.join(from), at.join(to)).is_ok());
    copy("run/checkpoints/best/model.safetensors", "weights.safetensors");
    copy("second/checkpoints/best/model.safetensors", "weights2.safetensors");
    copy("run/config.toml", "run.toml");
    files::write(at);
}

/// Of all commands, and tried below for each of them.
const OF_ALL: &str = "--fast-nondeterministic";

#[test]
fn every_argument_has_a_row_and_every_row_an_argument() {
    let folder = tempfile::tempdir().unwrap();
    let text = done(folder.path(), &["commands", "--json"]);
    let mut known = BTreeSet::new();
    let mut of_recipes = 0;
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| line[key].as_str().unwrap().to_string();
        let pair = (text("command"), text("argument"));
        // Runs from the library are given their device, so that key is tried here.
        let of_runs = line["key"].is_string() && pair.0 == "train" && pair.1 != "--device";
        match pair.1 == OF_ALL || of_runs {
            true => of_recipes += 1,
            false => drop(known.insert(pair)),
        }
    }
    assert!(known.len() > 300 && of_recipes > 40, "{} and {of_recipes}", known.len());
    let Table { rows, elsewhere, .. } = table();
    for (command, argument, file) in &elsewhere {
        let (file, test) = file.split_once(": ").unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let name = path.display();
        assert!(text.contains(&format!("fn {test}(")), "{command} {argument}: there is no {test} in {name}");
    }
    let pair = |row: &Row| (row.command.clone(), row.argument.clone());
    let elsewhere = elsewhere.into_iter().map(|(command, argument, _)| (command, argument));
    let named: BTreeSet<_> = rows.iter().map(pair).chain(elsewhere.clone()).collect();
    // That some values are refused does not show that the others are used.
    let used = rows.iter().filter(|row| row.kind != Kind::Refused).map(pair);
    let tried: BTreeSet<_> = used.chain(elsewhere).collect();
    let untried: Vec<_> = known.difference(&tried).collect();
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(untried.is_empty() && unknown.is_empty(), "no row for {untried:?}, no argument for {unknown:?}");
}

/// What a row should show, and does not.
fn check(fixtures: &Path, row: &Row, plain: &Mutex<BTreeMap<Vec<String>, Left>>) -> Result<(), String> {
    if let Kind::Threads = row.kind {
        #[cfg(target_os = "linux")]
        {
            let [few, many] = [1, 6].map(|count| running::threads(fixtures, &row.with, count));
            return if many >= few + 4 { Ok(()) } else { Err(format!("{few} and {many} threads")) };
        }
        #[cfg(not(target_os = "linux"))]
        return Ok(());
    }
    let with = left(fixtures, &row.with);
    if !with.text.contains(&row.expected) {
        return Err(format!("should print {:?}: {}", row.expected, with.text));
    }
    let words = match &row.kind {
        Kind::Compared(words) => words,
        Kind::Refused | Kind::Never if with.code == 0 => return Err(format!("is not refused: {}", with.text)),
        Kind::Prints if with.code != 0 => return Err(format!("is refused: {}", with.text)),
        _ => return Ok(()),
    };
    let known = plain.lock().unwrap().get(words).cloned();
    let without = known.unwrap_or_else(|| left(fixtures, words));
    plain.lock().unwrap().insert(words.clone(), without.clone());
    match () {
        () if row.fails && with.code == 0 => Err(format!("does not fail: {}", with.text)),
        () if row.fails && with != without => Ok(()),
        () if without.code != 0 => Err(format!("fails without it: {}", without.text)),
        () if with.code != 0 => Err(format!("is refused: {}", with.text)),
        () if with == without => Err(format!("has no effect: {}", with.printed)),
        () => Ok(()),
    }
}

/// One row after the other on a few threads; what is wrong with them.
fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> Result<(), String> + Sync) -> Vec<String> {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(problem) = work(item) {
                println!("{problem}");
                wrong.lock().unwrap().push(problem);
            }
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(worker))));
    wrong.into_inner().unwrap()
}

#[test]
fn no_argument_is_accepted_and_ignored() {
    let fixtures = tempfile::tempdir().unwrap();
    let fixtures = fixtures.path();
    let Table { set_up, rows, .. } = table();
    write_fixtures(fixtures, &set_up);
    // OCTANT_TEST_ROWS names the commands whose rows are tried, for who writes some.
    let wanted = std::env::var("OCTANT_TEST_ROWS").unwrap_or_default();
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.command.starts_with(&wanted)).collect();
    for command in ["train", "eval", "predict", "features", "plan", "serve"] {
        let compared = rows.iter().filter(|row| row.command == command).find_map(|row| match &row.kind {
            Kind::Compared(words) => Some(words),
            _ => None,
        });
        let Some(words) = compared else { continue };
        let [first, second] = [(); 2].map(|()| left(fixtures, words));
        assert_eq!(first, second, "{command} is not the same twice");
    }
    let plain = Mutex::default();
    let wrong = in_parallel(&rows, |row| {
        let described = |problem| format!("{} {} ({})\n  {problem}", row.command, row.argument, row.with.join(" "));
        check(fixtures, row, &plain).map_err(described)
    });
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    // The flag of all commands chooses kernels of GPUs: without one, each prints that it has no effect.
    let plain: BTreeMap<Vec<String>, Left> = plain.into_inner().unwrap();
    let commands: BTreeMap<&str, &Vec<String>> = plain
        .keys()
        // What follows a launch's `--` is of the command that it starts.
        .filter(|words| !words.iter().any(|word| word == "./fake.so" || word == "--"))
        .map(|words| (&*words[0], words))
        .collect();
    let wrong = in_parallel(&commands.into_values().collect::<Vec<_>>(), |words| {
        let words = [&words[..], &[OF_ALL.to_string()]].concat();
        let with = left(fixtures, &words);
        let is_named = with.text.contains("nondeterministic") && with.text.contains("no effect");
        let prints = with.code == 0 && is_named;
        if prints { Ok(()) } else { Err(format!("{}: {}", words.join(" "), with.text)) }
    });
    assert!(wrong.is_empty(), "{OF_ALL}: {}", wrong.join("\n"));
}

#[test]
fn an_argument_for_gpus_was_ignored_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, err) = octant(folder.path(), &["models", "resnet-tiny", OF_ALL]);
    assert!(code == 0 && err.contains("--fast-nondeterministic has no effect"), "{err}");
}
