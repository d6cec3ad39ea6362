//! The agreement between the command and the processes that compile for it: one line from the command is one turn, which is
//! one compilation; the process answers with one line that says what is known now.

use serde_json::{Value, json};
use std::io::{BufRead, Write};

/// What a process says after its turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// What is known of the board, as one row.
    pub row: Value,
    /// What the next turn will compile; none when nothing is left.
    pub next: Option<String>,
    /// How many more turns there will be at most.
    pub left: usize,
}

impl Answer {
    /// The line that a process writes.
    pub fn to_line(&self) -> String {
        json!({ "row": self.row, "next": self.next, "left": self.left }).to_string()
    }

    /// What a line says; none if it is not an answer, such as a compiler's own output.
    pub fn from_line(line: &str) -> Option<Answer> {
        let value: Value = serde_json::from_str(line).ok()?;
        let row = value.get("row").filter(|row| row.is_object())?.clone();
        let next = value.get("next")?.as_str().map(str::to_string);
        Some(Answer { row, next, left: usize::try_from(value.get("left")?.as_u64()?).ok()? })
    }
}

/// The process's side.
pub(super) struct Turns {
    first: bool,
}

impl Turns {
    pub fn new() -> Turns {
        Turns { first: true }
    }

    /// Says what is known, then waits until it is this process's turn again. Ends the process when the command is gone.
    pub fn wait(&mut self, known: Answer) {
        if !std::mem::take(&mut self.first) {
            Turns::answer(&known);
        }
        let mut line = String::new();
        if !matches!(std::io::stdin().lock().read_line(&mut line), Ok(count) if count > 0) {
            std::process::exit(0);
        }
    }

    pub fn answer(answer: &Answer) {
        let mut out = std::io::stdout().lock();
        // A command that does not listen any more also closes the input, which ends this process.
        let _ = writeln!(out, "{}", answer.to_line());
        let _ = out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_survives_its_line_and_other_lines_are_none() {
        let answer = Answer { row: json!({ "target": "v3-8" }), next: Some("batch 64".into()), left: 2 };
        assert_eq!(Answer::from_line(&answer.to_line()), Some(answer));
        let last = Answer { row: json!({}), next: None, left: 0 };
        assert_eq!(Answer::from_line(&last.to_line()), Some(last));
        for line in ["", "I1116 18:00:00 libtpu started", "{}", "{\"row\": 3}", "[1]"] {
            assert_eq!(Answer::from_line(line), None, "{line}");
        }
    }
}
