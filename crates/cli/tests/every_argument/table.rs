//! The table of rows.

use std::collections::BTreeMap;
use std::path::Path;

/// A line of the table.
#[derive(Debug)]
pub struct Row {
    pub command: String,
    pub argument: String,
    pub kind: Kind,
    pub with: Vec<String>,
    /// What must be printed.
    pub expected: String,
    /// What the argument does is that the command fails.
    pub fails: bool,
}

/// What shows that an argument is used.
#[derive(Debug, PartialEq)]
pub enum Kind {
    /// The command without it prints or writes something else.
    Compared(Vec<String>),
    /// The command succeeds and prints what is expected; without the argument there is nothing to compare with.
    Prints,
    /// This value is refused, or the argument in this company.
    Refused,
    /// The same, and there is no value that would be accepted here.
    Never,
    /// Another number of threads makes another number of them.
    Threads,
}

/// What the file has.
#[derive(Default)]
pub struct Table {
    /// Commands that make what the rows name.
    pub set_up: Vec<Vec<String>>,
    pub rows: Vec<Row>,
    /// Command, argument, and the file and test that try it.
    pub elsewhere: Vec<(String, String, String)>,
}

pub fn table() -> Table {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/every_argument.txt")).unwrap();
    let (mut names, mut table) = (BTreeMap::new(), Table::default());
    names.insert("$PORT".to_string(), vec![free_port().to_string()]);
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words = |text: &str| expanded(text, &names);
        let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let of_argument = |text: &str| {
            let (command, argument) = text.rsplit_once(' ').unwrap();
            (command.to_string(), argument.to_string())
        };
        match parts[..] {
            [line] if line.starts_with("! ") => table.set_up.push(words(&line[2..])),
            [line] => {
                let (name, text) = line.split_once(" = ").unwrap();
                let text = expanded(text, &names);
                names.insert(format!("${name}"), text);
            }
            [argument, text] if text.starts_with("as ") => {
                let (command, argument) = of_argument(argument);
                table.elsewhere.push((command, argument, text[3..].into()));
            }
            [argument, kind, with] | [argument, kind, with, _] => {
                let (command, argument) = of_argument(argument);
                let expected = parts.get(3).unwrap_or(&"").replace("$PORT", &names["$PORT"][0]);
                let (expected, fails) = match expected.strip_prefix("! ") {
                    Some(text) => (text.to_string(), true),
                    None => (expected, false),
                };
                let kind = match kind {
                    "-" => Kind::Prints,
                    "refused" => Kind::Refused,
                    "never" => Kind::Never,
                    "threads" => Kind::Threads,
                    without => Kind::Compared(words(without)),
                };
                let has_expectation = !expected.is_empty() || !matches!(kind, Kind::Refused | Kind::Never);
                assert!(has_expectation, "a refusal without its sentence: {line}");
                table.rows.push(Row { command, argument, kind, with: words(with), expected, fails });
            }
            _ => panic!("no row: {line}"),
        }
    }
    table
}

fn expanded(text: &str, names: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    text.split_whitespace().flat_map(|word| names.get(word).cloned().unwrap_or(vec![word.to_string()])).collect()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
