//! What `octant plan` prints: rows on standard output, and on a terminal one line below them about what is being compiled.

use super::Arguments;
use super::board::OPTIMISM;
use super::turns::Answer;
use crate::output::{self, Json, bytes, duration};
use octant_recipe::Recipe;
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The rows so far. Only one thread has it, so no line is printed into another.
pub(super) struct PlanTable {
    json: bool,
    /// What is compiled is never run.
    only_estimates: bool,
    /// Whether the line about what is being compiled is shown.
    live: bool,
    boards: Vec<Row>,
    begun: Instant,
    /// JSON rows are printed in the order of the boards; so many were.
    printed: usize,
}

struct Row {
    target: String,
    row: Value,
    /// The compiler has answered at least once.
    compiled: bool,
    finished: bool,
    /// What is being compiled, and since when.
    current: Option<(String, Instant)>,
    left: usize,
}

/// Turns of a board that has had none: the step, two to find the largest batch, the evaluation.
const TURNS: usize = 4;

impl PlanTable {
    pub fn new(arguments: &Arguments, recipe: &Recipe) -> PlanTable {
        let row = |target: &String| Row {
            target: target.clone(),
            row: Value::Null,
            compiled: false,
            finished: false,
            current: None,
            left: if arguments.quick { 2 } else { TURNS },
        };
        let boards = arguments.on.iter().map(row).collect();
        let live = !arguments.json && std::io::stderr().is_terminal();
        let (json, only_estimates) = (arguments.json, arguments.only_estimates());
        let table = PlanTable { json, only_estimates, live, boards, begun: Instant::now(), printed: 0 };
        if !table.json {
            table.print(&format!(
                "{} in {} for boards that are not attached",
                recipe.name,
                recipe.step.precision.dtype()
            ));
            table.print(&format!(
                "{:<6} {:>6} {:>10} {:>10} {:>8} {:>9} {:>11} {:>12} {:>11}  {}",
                "board", "batch", "per core", "limit", "largest", "step", "epoch", "all", "compiled", "source"
            ));
        }
        table
    }

    /// Our own estimate, before any compiler.
    pub fn estimated(&mut self, target: &str, row: Value) {
        self.show(&row, "estimate");
        self.of(target, |board| board.row = row);
    }

    pub fn began(&mut self, target: &str, what: String) {
        self.of(target, |board| board.current = Some((what, Instant::now())));
        self.draw();
    }

    pub fn answered(&mut self, target: &str, answer: Answer) {
        let Answer { row, next, left } = answer;
        let finished = next.is_none();
        let Some(first) = self.boards.iter().find(|board| board.target == target).map(|board| !board.compiled) else {
            return;
        };
        if !self.json && (first || finished) {
            // Before the search, the largest batch lies on a line through the first compilation.
            self.show(&row, if finished { "compiler" } else { "compiler, largest batch estimated" });
        }
        self.of(target, |board| {
            (board.row, board.compiled, board.finished, board.left, board.current) = (row, true, finished, left, None);
        });
        if self.json {
            while let Some(board) = self.boards.get(self.printed).filter(|board| board.finished) {
                Json::line(board.row.clone());
                self.printed += 1;
            }
        }
    }

    /// The line about what is being compiled.
    pub fn draw(&self) {
        if self.live {
            eprint!("\r\x1b[2K{}", output::shortened(&self.under_way()));
            let _ = std::io::stderr().flush();
        }
    }

    fn under_way(&self) -> String {
        let current = self.boards.iter().filter_map(|board| {
            let (what, since) = board.current.as_ref()?;
            Some(format!("{}: {what} for {} s", board.target, since.elapsed().as_secs()))
        });
        let current: Vec<String> = current.collect();
        let left: usize = self.boards.iter().map(|board| board.left).sum();
        let seconds = self.begun.elapsed().as_secs();
        format!("{seconds} s, at most {left} compilations left; Ctrl-C keeps what is known | {}", current.join(" | "))
    }

    /// The last lines, once nothing is being compiled.
    pub fn close(&mut self, finished: bool) {
        self.wipe();
        self.live = false;
        if self.json {
            self.boards
                .iter()
                .skip(self.printed)
                .filter(|board| board.compiled)
                .for_each(|board| Json::line(board.row.clone()));
        } else {
            self.print(&format!(
                "The time of a step is the compiler's own estimate, or what arithmetic and memory allow at best, times {OPTIMISM}: \
                 that is how much longer a ResNet-50 took on a v2-8 than its compiler had thought."
            ));
            if self.only_estimates {
                self.print(
                    "--quick compiles short, slow code: the compiler needs longer for training itself, whose \
                     code takes more memory.",
                );
            }
        }
        if !finished {
            eprintln!("octant: stopped; {}", self.summary());
        }
    }

    /// How far every board came.
    fn summary(&self) -> String {
        let state = |board: &Row| match board {
            Row { finished: true, .. } => format!("{} is complete", board.target),
            Row { compiled: true, .. } => format!("the largest batch of {} is an estimate", board.target),
            Row { row: Value::Null, .. } => format!("nothing is known of {}", board.target),
            Row { .. } => format!("{} is an estimate", board.target),
        };
        self.boards.iter().map(state).collect::<Vec<_>>().join(", ")
    }

    /// Boards that could not be planned.
    pub fn failed(&self) -> Vec<&str> {
        let failed = |board: &&Row| !board.row["error"].is_null();
        self.boards.iter().filter(failed).map(|board| board.target.as_str()).collect()
    }

    fn of(&mut self, target: &str, change: impl FnOnce(&mut Row)) {
        if let Some(board) = self.boards.iter_mut().find(|board| board.target == target) {
            change(board);
        }
    }

    fn show(&self, row: &Value, source: &str) {
        match self.json {
            true => Json::line(row.clone()),
            false => lines(row, source).iter().for_each(|line| self.print(line)),
        }
    }

    fn print(&self, line: &str) {
        self.wipe();
        output::line(line);
    }

    fn wipe(&self) {
        if self.live {
            eprint!("\r\x1b[2K");
        }
    }
}

fn lines(row: &Value, source: &str) -> Vec<String> {
    let target = row["target"].as_str().unwrap_or_default();
    if let Some(error) = row["error"].as_str() {
        return vec![format!("{target:<6} no: {error}")];
    }
    let memory = |key: &str| row[key].as_u64().map_or_else(|| "unknown".into(), bytes);
    let time = |key: &str| {
        row[key].as_f64().map_or_else(|| "unknown".into(), |seconds| duration(Duration::from_secs_f64(seconds)))
    };
    let mut lines = vec![format!(
        "{target:<6} {:>6} {:>10} {:>10} {:>8} {:>9} {:>11} {:>12} {:>11}  {source}{}",
        row["batch_size"].to_string(),
        memory("hbm_bytes_per_core"),
        memory("hbm_limit_bytes"),
        row["largest_batch"].to_string(),
        time("step_seconds_estimate"),
        time("epoch_seconds_estimate"),
        time("recipe_seconds_estimate"),
        if row["estimate"] == true { "-".into() } else { time("compile_seconds") },
        if row["fits"] == true { "" } else { "; does not fit" },
    )];
    if row["complete"] == true {
        lines.push(format!(
            "       evaluation needs {}; {:.1} TFLOP and {} per step",
            memory("evaluation_hbm_bytes_per_core"),
            row["flops_per_step"].as_f64().unwrap_or(0.0) / 1e12,
            row["bytes_per_step"].as_f64().map_or_else(|| "an unknown traffic".into(), |count| bytes(count as u64)),
        ));
    }
    if let Some(price) = row["price_estimate"].as_f64() {
        lines.push(format!("       the whole recipe would cost {price:.2}"));
    }
    if let (Some(count), Some(command)) = (row["saved"].as_u64(), row["train"].as_str()) {
        lines.push(format!("       {count} programs are kept; on the board, this starts at once: {command}"));
    }
    lines
}
