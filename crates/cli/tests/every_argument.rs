//! No argument is accepted and ignored: each changes what a command prints or writes, or is refused, or the command prints why
//! it has no effect. `every_argument.txt` has a row for every argument of the program; keys of recipes, which are flags of `train`
//! too, are tried in crates/run/tests/every_key.rs.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;

use binary::{done, octant};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// A line of the table.
#[derive(Debug)]
struct Row {
    command: String,
    argument: String,
    /// What is run without the argument; none where there is nothing to compare with.
    without: Option<Vec<String>>,
    with: Vec<String>,
    /// What must be printed; a difference suffices where it is empty.
    expected: String,
}

/// What the file has.
#[derive(Default)]
struct Table {
    /// Commands that make what the rows name.
    set_up: Vec<Vec<String>>,
    rows: Vec<Row>,
    /// Command, argument, and the file and test that try it.
    elsewhere: Vec<(String, String, String)>,
}

fn table() -> Table {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/every_argument.txt")).unwrap();
    let (mut names, mut table) = (BTreeMap::new(), Table::default());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words = |text: &str| expanded(text, &names);
        let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
        match parts[..] {
            [line] if line.starts_with("! ") => table.set_up.push(words(&line[2..])),
            [line] => {
                let (name, text) = line.split_once(" = ").unwrap();
                let text = expanded(text, &names);
                names.insert(format!("${name}"), text);
            }
            [argument, text] if text.starts_with("as ") => {
                let (command, argument) = argument.rsplit_once(' ').unwrap();
                table.elsewhere.push((command.into(), argument.into(), text[3..].into()));
            }
            [argument, without, with] | [argument, without, with, _] => {
                let (command, argument) = argument.rsplit_once(' ').unwrap();
                table.rows.push(Row {
                    command: command.into(),
                    argument: argument.into(),
                    without: (without != "-").then(|| words(without)),
                    with: words(with),
                    expected: parts.get(3).unwrap_or(&"").to_string(),
                });
            }
            _ => panic!("no row: {line}"),
        }
    }
    table
}

fn expanded(text: &str, names: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    text.split_whitespace().flat_map(|word| names.get(word).cloned().unwrap_or(vec![word.to_string()])).collect()
}

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

#[path = "every_argument/files.rs"]
mod files;

/// What a command leaves: exit code, what is printed without times, and the files that it wrote.
#[derive(Debug, Clone)]
struct Left {
    code: i32,
    text: String,
    printed: String,
    written: BTreeMap<String, u64>,
}

/// Two runs of one command print the same but for times.
impl PartialEq for Left {
    fn eq(&self, other: &Left) -> bool {
        (self.code, &self.printed, &self.written) == (other.code, &other.printed, &other.written)
    }
}

fn left(fixtures: &Path, words: &[String]) -> Left {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let is_named = words.iter().any(|word| word.split(['/', '=', ',']).any(|part| name == *part));
        files::link(&entry.path(), &folder.path().join(&name), is_named);
    }
    let mut before = BTreeMap::new();
    stamps(folder.path(), &mut before);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (code, out, err) = match words[0] {
        "board" => board(folder.path(), &words),
        _ => octant(folder.path(), &words),
    };
    let mut written = BTreeMap::new();
    let places = Places { top: folder.path(), fixtures, before };
    list(&places, folder.path(), words[0] == "events", &mut written);
    for path in places.before.keys().filter(|path| !path.exists()) {
        written.insert(format!("without {}", path.strip_prefix(folder.path()).unwrap().display()), 0);
    }
    let own = folder.path().display().to_string();
    let text = format!("{out}\n{err}").replace(&own, "");
    Left { code, printed: without_times(&text), text, written }
}

/// A board until it says how to end it, or fails. What opens pages is a script that leaves a file.
fn board(at: &Path, words: &[&str]) -> (i32, String, String) {
    let path = format!("{}:{}", at.join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_octant"));
    command.current_dir(at).args(words).env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        // The port is another one every time.
        out += &line
            .split_inclusive(':')
            .filter(|part| !part.starts_with(|c: char| c.is_ascii_digit()))
            .collect::<String>();
        if line.contains("Ctrl-C") {
            let opens = words.contains(&"--open");
            (0..100)
                .take_while(|_| opens && !at.join("opened").exists())
                .for_each(|_| sleep(Duration::from_millis(20)));
            child.kill().unwrap();
            child.wait().unwrap();
            return (0, out, String::new());
        }
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap_or(-1), out, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Where a command ran, and what was there before.
struct Places<'a> {
    top: &'a Path,
    fixtures: &'a Path,
    before: BTreeMap<PathBuf, (SystemTime, u64)>,
}

/// Time and size of every file, by which most that were not written are known without reading them.
fn stamps(folder: &Path, found: &mut BTreeMap<PathBuf, (SystemTime, u64)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            stamps(&path, found);
            continue;
        }
        let facts = path.metadata().unwrap();
        found.insert(path, (facts.modified().unwrap(), facts.len()));
    }
}

/// Files that are new or changed; times, logs and settings are no effect. Event files have times, too, unless they were copied.
fn list(places: &Places, folder: &Path, with_events: bool, written: &mut BTreeMap<String, u64>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let relative = path.strip_prefix(places.top).unwrap();
        let name = relative.display().to_string();
        if path.is_symlink() || name == "cache" {
            continue;
        }
        if path.is_dir() {
            list(places, &path, with_events, written);
            continue;
        }
        let is_text = |ending: &str| name.ends_with(ending);
        let with_times =
            ["config.toml", "history.toml", ".txt", ".log", "progress.toml", "machine.csv", "timing.csv", "trace.json"];
        let is_event_file = name.contains("tfevents") && !with_events;
        let was_there = places.before.get(&path);
        let hash = match is_event_file || with_times.iter().any(|ending| is_text(ending)) {
            true if was_there.is_some() => continue,
            true => 0,
            false => {
                let facts = path.metadata().unwrap();
                if was_there == Some(&(facts.modified().unwrap(), facts.len())) {
                    continue;
                }
                let bytes = std::fs::read(&path).unwrap();
                if was_there.is_some() && std::fs::read(places.fixtures.join(relative)).is_ok_and(|old| old == bytes) {
                    continue;
                }
                let mut hasher = DefaultHasher::new();
                bytes.hash(&mut hasher);
                hasher.finish()
            }
        };
        let name = name.split("tfevents").next().unwrap_or(&name).to_string();
        written.insert(name, hash);
    }
}

/// The text without lines that measure: two runs of one command print the same.
fn without_times(text: &str) -> String {
    let units = ["s", "ms", "µs", "min", "MiB", "GiB", "KiB", "images/s", "img/s", "GFLOP/s"];
    let is_measured = |words: &[&str]| {
        let number = |word: &str| word.trim_matches(|c: char| !c.is_ascii_digit()).parse::<f64>().is_ok();
        words.windows(2).any(|pair| number(pair[0]) && units.contains(&pair[1].trim_end_matches([',', ')', ';'])))
            || words.iter().any(|word| units.iter().any(|unit| word.strip_suffix(unit).is_some_and(number)))
    };
    let is_time = |line: &&str| ["seconds", "_s\"", " % of the time"].iter().any(|part| line.contains(part));
    let lines = text.lines().filter(|line| !is_time(line));
    let lines = lines.filter(|line| !is_measured(&line.split_whitespace().collect::<Vec<_>>()));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_argument_has_a_row_and_every_row_an_argument() {
    let folder = tempfile::tempdir().unwrap();
    let text = done(folder.path(), &["commands", "--json"]);
    let mut known = BTreeSet::new();
    let mut of_recipes = BTreeSet::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| line[key].as_str().unwrap().to_string();
        let pair = (text("command"), text("argument"));
        // Of all commands; without a GPU it has no effect, which is printed.
        if pair.1 == "--fast-nondeterministic" {
            continue;
        }
        match line["key"].is_string() && pair.0 != "bench" {
            true => of_recipes.insert(pair),
            false => known.insert(pair),
        };
    }
    assert!(known.len() > 150 && of_recipes.len() > 40, "{} and {}", known.len(), of_recipes.len());
    let Table { rows, elsewhere, .. } = table();
    let mut tried: BTreeSet<(String, String)> = rows.into_iter().map(|row| (row.command, row.argument)).collect();
    for (command, argument, file) in elsewhere {
        let (file, test) = file.split_once(": ").unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            text.contains(&format!("fn {test}(")),
            "{command} {argument}: there is no {test} in {}",
            path.display()
        );
        match argument.as_str() {
            "*" => tried.extend(known.iter().filter(|(known, _)| known.split(' ').next() == Some(&command)).cloned()),
            _ => drop(tried.insert((command, argument))),
        }
    }
    let untried: Vec<_> = known.difference(&tried).collect();
    let unknown: Vec<_> = tried.difference(&known).collect();
    assert!(untried.is_empty() && unknown.is_empty(), "no row for {untried:?}, no argument for {unknown:?}");
}

#[test]
fn no_argument_is_accepted_and_ignored() {
    let fixtures = tempfile::tempdir().unwrap();
    let Table { set_up, rows, .. } = table();
    write_fixtures(fixtures.path(), &set_up);
    for command in ["train", "eval", "predict", "features"] {
        let words = rows.iter().filter(|row| row.command == command).find_map(|row| row.without.clone()).unwrap();
        let [first, second] = [(); 2].map(|()| left(fixtures.path(), &words));
        assert_eq!(first, second, "{command} is not the same twice");
    }
    let plain: Mutex<BTreeMap<Vec<String>, Left>> = Mutex::default();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let check = |row: &Row| -> Result<(), String> {
        let with = left(fixtures.path(), &row.with);
        if !with.text.contains(&row.expected) {
            return Err(format!("should print {:?}: {}", row.expected, with.printed));
        }
        let Some(words) = &row.without else {
            return match with.code == 0 || !row.expected.is_empty() {
                true => Ok(()),
                false => Err(with.printed),
            };
        };
        let known = plain.lock().unwrap().get(words).cloned();
        let without = known.unwrap_or_else(|| left(fixtures.path(), words));
        plain.lock().unwrap().insert(words.clone(), without.clone());
        match () {
            () if without.code != 0 => Err(format!("fails without it: {}", without.printed)),
            () if with.code != 0 && row.expected.is_empty() => Err(format!("is refused: {}", with.printed)),
            () if with == without => Err(format!("has no effect: {}", with.printed)),
            () => Ok(()),
        }
    };
    let work = || {
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(problem) = check(row) {
                let text = format!("{} {} ({})\n  {problem}", row.command, row.argument, row.with.join(" "));
                println!("{text}");
                wrong.lock().unwrap().push(text);
            }
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(work))));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn an_argument_for_gpus_was_ignored_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, err) = octant(folder.path(), &["models", "resnet-tiny", "--fast-nondeterministic"]);
    assert!(code == 0 && err.contains("--fast-nondeterministic has no effect"), "{err}");
}
