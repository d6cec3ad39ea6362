//! Commands, and what they leave.

use super::files;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// What a command leaves: exit code, what is printed without times, and the files that it wrote.
#[derive(Debug, Clone)]
pub struct Left {
    pub code: i32,
    pub text: String,
    pub printed: String,
    written: BTreeMap<String, u64>,
}

/// Two runs of one command print the same but for times.
impl PartialEq for Left {
    fn eq(&self, other: &Left) -> bool {
        (self.code, &self.printed, &self.written) == (other.code, &other.printed, &other.written)
    }
}

/// A folder with everything that rows name.
struct Workplace {
    folder: tempfile::TempDir,
    before: BTreeMap<PathBuf, (SystemTime, u64)>,
}

impl Workplace {
    fn new(fixtures: &Path, words: &[&str]) -> Workplace {
        let folder = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(fixtures).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            match name.to_str().unwrap() {
                // What was compiled for another command is none of this one's.
                "cache" => continue,
                "store" if words[0] == "cache" => files::copy(&entry.path(), &folder.path().join("cache/executables")),
                _ => {}
            }
            let is_named = words.iter().any(|word| word.split(['/', '=', ',']).any(|part| name == *part));
            files::link(&entry.path(), &folder.path().join(&name), is_named);
        }
        let mut before = BTreeMap::new();
        stamps(folder.path(), &mut before);
        Workplace { folder, before }
    }

    /// The program, with a plugin without a device as the one for TPUs, and with programs of the fixtures instead of Python and of
    /// whatever opens pages.
    fn command(&self, words: &[&str]) -> Command {
        let at = self.folder.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
        command.current_dir(at).args(words).env("OCTANT_CACHE", at.join("cache")).env("HOME", at);
        command.env("OCTANT_PEER_PYTHON", at.join("bin/peer")).env("OCTANT_FAKE_PLUGIN", "devices=2");
        if ["plan", "plugin"].contains(&words[0]) {
            command.env("TPU_LIBRARY_PATH", at.join("libtpu.so")).env("OCTANT_FAKE_PLUGIN", "devices=8 tpu=1");
        }
        if ["plugin", "board"].contains(&words[0]) {
            let path = format!("{}:{}", at.join("bin").display(), std::env::var("PATH").unwrap());
            command.env("PATH", path);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

pub fn left(fixtures: &Path, words: &[String]) -> Left {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let place = Workplace::new(fixtures, &words);
    let (code, out, err) = match words[0] {
        "board" | "serve" => server(&place, &words),
        _ => {
            let output = place.command(&words).output().unwrap();
            let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            (output.status.code().unwrap_or(-1), out, err)
        }
    };
    let top = place.folder.path();
    let mut written = BTreeMap::new();
    list(&place, fixtures, top, words[0] == "events", &mut written);
    for path in place.before.keys().filter(|path| !path.exists()) {
        written.insert(format!("without {}", path.strip_prefix(top).unwrap().display()), 0);
    }
    let text = format!("{out}\n{err}").replace(&top.display().to_string(), "");
    // A plan's times are computed, but for those that its compilers took.
    let printed = match words[0] {
        "plan" => without_compile_times(&text),
        "board" | "serve" => without_times(&without_ports(&text)),
        _ => without_times(&text),
    };
    Left { code, printed, text, written }
}

fn without_compile_times(text: &str) -> String {
    let shown = |line: &str| match serde_json::from_str(line) {
        Ok(serde_json::Value::Object(mut row)) => {
            row.remove("compile_seconds");
            serde_json::Value::Object(row).to_string()
        }
        _ => line.to_string(),
    };
    text.lines().map(shown).collect::<Vec<_>>().join("\n")
}

/// The most threads that a command had at a time.
#[cfg(target_os = "linux")]
pub fn threads(fixtures: &Path, words: &[String], count: usize) -> usize {
    let count = count.to_string();
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.extend(["--threads", &count]);
    let place = Workplace::new(fixtures, &words);
    let mut child = place.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let tasks = PathBuf::from(format!("/proc/{}/task", child.id()));
    let (mut most, begun) = (0, std::time::Instant::now());
    // A server does not end by itself.
    while child.try_wait().unwrap().is_none() && (words[0] != "serve" || begun.elapsed() < Duration::from_secs(3)) {
        most = most.max(std::fs::read_dir(&tasks).map_or(0, Iterator::count));
        sleep(Duration::from_micros(300));
    }
    let _ = child.kill();
    let _ = child.wait();
    most
}

/// A server until it prints how to end it, or fails; what it then responds to a few requests is printed, too. What opens pages is
/// a script that leaves a file.
fn server(place: &Workplace, words: &[&str]) -> (i32, String, String) {
    let mut child = place.command(words).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (mut out, mut address, mut token) = (String::new(), None, None);
    for line in lines.by_ref() {
        out += &format!("{line}\n");
        address = address.or_else(|| Some(line.split_once("http://")?.1.split(['/', '"', '?']).next()?.to_string()));
        token = token.or_else(|| Some(line.split_once("Bearer ")?.1.split('`').next()?.to_string()));
        if line.contains("Ctrl-C") || line.contains("\"ready\"") {
            let opens = words.contains(&"--open");
            let has_opened = || place.folder.path().join("opened").exists();
            (0..100).take_while(|_| opens && !has_opened()).for_each(|_| sleep(Duration::from_millis(20)));
            let address = address.unwrap_or_default();
            out += &match words[0] {
                "serve" => requests(place, &address, token),
                _ => runs(&address),
            };
            return end(child, words, out, &mut lines);
        }
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap_or(-1), out, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Ends a server as a terminal does.
fn end(
    mut child: Child,
    words: &[&str],
    mut out: String,
    rest: &mut dyn Iterator<Item = String>,
) -> (i32, String, String) {
    let mut errors = child.stderr.take().unwrap();
    match words[0] {
        "serve" => {
            // SAFETY: the process is our child, and has not been waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
            out.extend(rest);
        }
        _ => child.kill().unwrap(),
    }
    child.wait().unwrap();
    let mut err = String::new();
    errors.read_to_string(&mut err).unwrap();
    (0, out, err)
}

/// The port is another one every time.
fn without_ports(text: &str) -> String {
    text.split_inclusive(':').map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit())).collect()
}

/// The names of the runs that a board shows.
fn runs(address: &str) -> String {
    let port = address.rsplit(':').next().unwrap_or_default();
    let mut stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    let head = format!("GET /api/runs HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut response = Vec::new();
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.read_to_end(&mut response));
    let response = String::from_utf8_lossy(&response).into_owned();
    let names = response.split("\"roots\":[").skip(1).filter_map(|rest| rest.split(']').next());
    names.collect::<Vec<_>>().join(" ") + "\n"
}

/// Responses of a server of networks: what it describes, predictions of a file, two at once, of tensors, of no image.
fn requests(place: &Workplace, address: &str, token: Option<String>) -> String {
    let port = address.rsplit(':').next().unwrap_or_default().to_string();
    let header = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let send = |method: &str, path: &str, host: &str, body: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{header}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let sent = stream.write_all(&[head.as_bytes(), body].concat());
        let mut response = Vec::new();
        let _ = sent.and_then(|()| stream.read_to_end(&mut response));
        let response = String::from_utf8_lossy(&response).into_owned();
        let status = response.lines().next().unwrap_or_default();
        format!("{path} {status} {}\n", response.split_once("\r\n\r\n").map_or("", |(_, body)| body))
    };
    let image = std::fs::read(place.folder.path().join("images/0.png")).unwrap();
    let tensors = |count: usize| {
        let numbers = vec!["0.5"; count * 3 * 32 * 32].join(",");
        format!(r#"{{"inputs":[{{"name":"images","datatype":"FP32","shape":[{count},3,32,32],"data":[{numbers}]}}]}}"#)
    };
    let [three, nine] = [3, 9].map(tensors);
    let mut out = send("GET", "/v2/models/net", "127.0.0.1", &[]);
    out += &send("GET", "/v2/models/net", "elsewhere.example", &[]);
    out += &send("POST", "/predict", "127.0.0.1", &image);
    out += &std::thread::scope(|scope| {
        let infer = || send("POST", "/v2/models/net/infer", "127.0.0.1", three.as_bytes());
        let both = [(); 2].map(|()| scope.spawn(infer));
        both.map(|one| one.join().unwrap()).concat()
    });
    out += &send("POST", "/v2/models/net/infer", "127.0.0.1", nine.as_bytes());
    // More than a MiB, and no image.
    out += &send("POST", "/predict", "127.0.0.1", &vec![7; 1_100_000]);
    out
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
/// Compiled programs are known by their names, which say what was compiled.
fn list(place: &Workplace, fixtures: &Path, folder: &Path, with_events: bool, written: &mut BTreeMap<String, u64>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let relative = path.strip_prefix(place.folder.path()).unwrap();
        let name = relative.display().to_string();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            list(place, fixtures, &path, with_events, written);
            continue;
        }
        if name.starts_with("cache/") {
            let is_kept = name.ends_with(".executable") || name.starts_with("cache/plugins");
            if is_kept && !place.before.contains_key(&path) {
                written.insert(name, 0);
            }
            continue;
        }
        let is_text = |ending: &str| name.ends_with(ending);
        let with_times =
            ["config.toml", "history.toml", ".txt", ".log", "progress.toml", "machine.csv", "timing.csv", "trace.json"];
        let is_event_file = name.contains("tfevents") && !with_events;
        let was_there = place.before.get(&path);
        let hash = match is_event_file || with_times.iter().any(|ending| is_text(ending)) {
            true if was_there.is_some() => continue,
            true => 0,
            false => {
                let facts = path.metadata().unwrap();
                if was_there == Some(&(facts.modified().unwrap(), facts.len())) {
                    continue;
                }
                let bytes = std::fs::read(&path).unwrap();
                if was_there.is_some() && std::fs::read(fixtures.join(relative)).is_ok_and(|old| old == bytes) {
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
