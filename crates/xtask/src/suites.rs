//! Runs the test programs of the workspace side by side, as `cargo test` would run them one after another.
//!
//! A test program waits for other programs, for servers and for its own slowest test, so one at a time leaves half of the
//! processor idle. Each one's output is kept and printed as a whole.

use anyhow::{Context, Result, anyhow, bail};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// What is compiled: not the examples, which clippy checks and whose tests include them.
const TARGETS: [&str; 4] = ["--workspace", "--lib", "--bins", "--tests"];

/// Those that take longest, longest first: one that begins last would run alone in the end.
const LONG: [&str; 4] = [
    "cli tests/every_argument.rs",
    "pjrt tests/boards.rs",
    "stablehlo tests/oracle/main.rs",
    "zoo tests/golden/main.rs",
];

/// Environment variables that tests are given.
type Variables = [(&'static str, PathBuf)];

/// Something that runs tests and prints cargo's `test result` lines.
pub struct Suite {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// The folder of its package, where it runs. Cargo runs where we do: a build script that reads this variable would be run
    /// again, and everything above its package compiled again.
    folder: Option<PathBuf>,
}

/// What came of it.
struct Outcome {
    name: String,
    output: String,
    succeeded: bool,
    seconds: f64,
}

/// Runs tests with these variables, as many programs at a time as there are processors.
pub fn run(mut suites: Vec<Suite>, variables: &Variables) -> Result<()> {
    if let Some(name) = LONG.iter().find(|name| suites.iter().all(|suite| suite.name != **name)) {
        bail!("no test program has the name {name:?} any more: xtask's suites.rs begins with it");
    }
    let rank = |suite: &Suite| LONG.iter().position(|name| *name == suite.name).unwrap_or(LONG.len());
    suites.sort_by_key(rank);
    let queue = Mutex::new(VecDeque::from(suites));
    let outcomes = Mutex::new(Vec::new());
    let side_by_side = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            loop {
                let next = queue.lock().map_err(|_| anyhow!("another worker panicked"))?.pop_front();
                let Some(suite) = next else { return Ok(()) };
                let outcome = suite.run(variables)?;
                let mut outcomes = outcomes.lock().map_err(|_| anyhow!("another worker panicked"))?;
                outcome.print();
                outcomes.push(outcome);
            }
        };
        let workers: Vec<_> = (0..side_by_side).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?)
    })?;
    let outcomes = outcomes.into_inner().map_err(|_| anyhow!("a worker panicked"))?;
    summary(&outcomes)
}

impl Suite {
    fn run(&self, variables: &Variables) -> Result<Outcome> {
        let begun = Instant::now();
        // One pipe for both, so that lines stay in order.
        let (mut reader, writer) = std::io::pipe()?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        match &self.folder {
            Some(folder) => command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder),
            // As `crate::cargo` has it: with another value cargo compiles the workspace again.
            None => command.env("CARGO_INCREMENTAL", "0"),
        };
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn().with_context(|| format!("{} cannot be started", self.program.display()))?;
        // It holds the pipe's other end, which would keep the reader waiting.
        drop(command);
        let mut output = Vec::new();
        reader.read_to_end(&mut output)?;
        let succeeded = child.wait()?.success();
        let output = String::from_utf8_lossy(&output).into_owned();
        Ok(Outcome { name: self.name.clone(), output, succeeded, seconds: begun.elapsed().as_secs_f64() })
    }
}

impl Outcome {
    fn print(&self) {
        let mut out = std::io::stdout().lock();
        // Nobody may be reading any more.
        let _ = write!(out, "── {} ({:.1} s)\n{}", self.name, self.seconds, self.output);
        let _ = out.flush();
    }

    /// Tests that passed, failed and were ignored.
    fn counts(&self) -> [u64; 3] {
        let lines = self.output.lines().filter(|line| line.starts_with("test result: "));
        lines.fold([0; 3], |counts, line| {
            let of = |what: &str| {
                let part = line.split([';', '.']).find_map(|part| part.trim().strip_suffix(what));
                part.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0)
            };
            let [passed, failed, ignored] = ["passed", "failed", "ignored"].map(of);
            [counts[0] + passed, counts[1] + failed, counts[2] + ignored]
        })
    }
}

/// The total, and what failed.
fn summary(outcomes: &[Outcome]) -> Result<()> {
    let mut total = [0; 3];
    for outcome in outcomes {
        total.iter_mut().zip(outcome.counts()).for_each(|(total, count)| *total += count);
    }
    let [passed, failed, ignored] = total;
    println!("── all tests: {passed} passed, {failed} failed, {ignored} ignored, in {} programs", outcomes.len());
    let failures: Vec<&str> =
        outcomes.iter().filter(|outcome| !outcome.succeeded).map(|outcome| outcome.name.as_str()).collect();
    match failures.is_empty() {
        true => Ok(()),
        false => bail!("tests failed in {}", failures.join(", ")),
    }
}

/// Compiles all tests. Those in the documentation are compiled when they run.
pub fn build(variables: &Variables) -> Result<Vec<Suite>> {
    let mut cargo = crate::cargo(&["test", "--no-run", "--message-format=json-render-diagnostics"]);
    cargo.args(TARGETS).envs(variables.iter().map(|(name, value)| (name, value))).stdout(Stdio::piped());
    let mut child = cargo.spawn()?;
    let messages = BufReader::new(child.stdout.take().context("cargo has no output")?);
    // It runs from the beginning to nearly the end, on one core.
    let documentation = crate::cargo(&["test", "--workspace", "--doc", "--no-fail-fast"]);
    let documentation = Suite {
        name: "examples in the documentation".into(),
        program: documentation.get_program().into(),
        arguments: documentation.get_args().map(|word| word.to_string_lossy().into_owned()).collect(),
        folder: None,
    };
    let mut suites = vec![documentation];
    for line in messages.lines() {
        suites.extend(suite(&line?));
    }
    match child.wait()? {
        status if status.success() => Ok(suites),
        status => bail!("compiling the tests ended with {status}"),
    }
}

/// The test program of a line of cargo's messages, if it is about one.
fn suite(message: &str) -> Option<Suite> {
    let program = PathBuf::from(text(message, "executable")?);
    // A target has a key of that name too: whether it may be tested.
    let (_, profile) = message.split_once("\"profile\":{")?;
    if !profile.split('}').next()?.contains("\"test\":true") {
        return None;
    }
    let folder = PathBuf::from(text(message, "manifest_path")?).parent()?.to_path_buf();
    let source = PathBuf::from(text(message, "src_path")?);
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let source = source.strip_prefix(&folder).unwrap_or(&source).display().to_string();
    Some(Suite { name: format!("{package} {source}"), program, arguments: Vec::new(), folder: Some(folder) })
}

/// The text of a key in a line of JSON, where it is text; keys that repeat have the first one's.
fn text(json: &str, key: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{key}\":\""))?;
    let mut text = String::new();
    let mut letters = rest.chars();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(letters.next()?),
            letter => text.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_the_messages_of_cargo() {
        let message = |test: bool, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///w/crates/cli#octant-cli@0.1.0\",\
                 \"manifest_path\":\"/w/crates/cli/Cargo.toml\",\"target\":{{\"kind\":[\"test\"],\"name\":\"plan\",\
                 \"src_path\":\"/w/crates/cli/tests/plan.rs\",\"doctest\":false,\"test\":true}},\
                 \"profile\":{{\"opt_level\":\"1\",\"test\":{test}}},\"executable\":{executable},\"fresh\":false}}"
            )
        };
        let found = suite(&message(true, "\"/w/target/debug/deps/plan-\\\"1\"")).unwrap();
        assert_eq!((found.name.as_str(), found.folder), ("cli tests/plan.rs", Some("/w/crates/cli".into())));
        assert_eq!(found.program.to_str(), Some("/w/target/debug/deps/plan-\"1"));
        assert!(suite(&message(false, "\"/w/target/debug/octant\"")).is_none(), "the program that tests run");
        assert!(suite(&message(true, "null")).is_none());
    }

    #[test]
    fn results_are_added_up() {
        let output = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s\n\
                      test a ... ok\ntest result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured";
        let outcome = Outcome { name: "a".into(), output: output.into(), succeeded: false, seconds: 1.0 };
        assert_eq!(outcome.counts(), [7, 3, 1]);
        assert!(summary(&[outcome]).unwrap_err().to_string().ends_with("tests failed in a"));
    }
}
