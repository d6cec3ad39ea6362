//! The protocol between a plan and the processes that compile for it: one line from the plan is one turn, which is one
//! compilation; the process writes one line with what is known now.

use crate::PlanRow;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

/// What is known after one compilation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// What is known of the machine.
    pub row: PlanRow,
    /// What the next turn will compile; none when nothing is left.
    pub next: Option<String>,
    /// How many more turns there will be at most.
    pub left: usize,
}

impl Turn {
    /// What a line holds; none if it is another one, such as a compiler's own output.
    pub(crate) fn from_line(line: &str) -> Option<Turn> {
        serde_json::from_str(line).ok()
    }
}

/// The process's side.
pub(crate) struct Turns;

impl Turns {
    /// Waits for the first turn.
    pub fn first(&self) {
        let mut line = String::new();
        // The plan is gone: the result is not read.
        if !matches!(std::io::stdin().lock().read_line(&mut line), Ok(count) if count > 0) {
            std::process::exit(0);
        }
    }

    /// Writes what is known, then waits for the next turn.
    pub fn wait(&self, known: Turn) {
        Turns::write(&known);
        self.first();
    }

    pub fn write(turn: &Turn) {
        let mut out = std::io::stdout().lock();
        // A plan that has ended also closes the input, which ends this process.
        let _ = serde_json::to_writer(&mut out, turn);
        let _ = writeln!(out).and_then(|()| out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_survives_its_line_and_other_lines_are_none() {
        let row = PlanRow::failed("v3-8", "no memory".into());
        for turn in
            [Turn { row: row.clone(), next: Some("batch 64".into()), left: 2 }, Turn { row, next: None, left: 0 }]
        {
            assert_eq!(Turn::from_line(&serde_json::to_string(&turn).unwrap()), Some(turn));
        }
        for line in ["", "I1116 18:00:00 libtpu started", "{}", "{\"row\": 3}", "[1]"] {
            assert_eq!(Turn::from_line(line), None, "{line}");
        }
    }
}
