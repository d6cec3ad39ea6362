//! What `octant plan` prints: rows on standard output, and on a terminal one line below them about what is being compiled.

use super::Arguments;
use super::board::OPTIMISM;
use super::turns::Answer;
use crate::output::{self, Json, bytes, duration};
use octant_pjrt::boards::Board;
use octant_pjrt::gpus::Gpu;
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
    /// Whether there is a column for what a run costs.
    priced: bool,
    /// Whether it was printed how many images an epoch has.
    epoch_is_known: bool,
}

struct Row {
    target: String,
    row: Value,
    /// Our own estimate, before any compiler.
    estimate: Value,
    /// The batch of the compiled row that was printed.
    shown: Option<Value>,
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
    pub fn new(arguments: &Arguments, recipe: &Recipe, targets: &[String]) -> PlanTable {
        let row = |target: &String| Row {
            target: target.clone(),
            row: Value::Null,
            estimate: Value::Null,
            shown: None,
            compiled: false,
            finished: false,
            current: None,
            left: if arguments.quick { 2 } else { TURNS },
        };
        let boards = targets.iter().map(row).collect();
        let live = !arguments.json && std::io::stderr().is_terminal();
        let (json, only_estimates) = (arguments.json, arguments.only_estimates());
        let (priced, epoch_is_known) = (!arguments.price.is_empty(), false);
        let table =
            PlanTable { json, only_estimates, live, boards, begun: Instant::now(), printed: 0, priced, epoch_is_known };
        if !table.json {
            table.print(&format!(
                "{} in {}, planned for machines that are not attached",
                recipe.name,
                recipe.step.precision.dtype()
            ));
        }
        table
    }

    /// The line above the columns, once it is known how many images an epoch has.
    fn head(&mut self, row: &Value) {
        let Some(images) = row["images_from"].as_str().filter(|_| !self.json && !self.epoch_is_known) else { return };
        self.epoch_is_known = true;
        self.print(&format!("an epoch is {images}"));
        let cost = if self.priced { format!(" {:>9}", "cost") } else { String::new() };
        self.print(&format!(
            "{:<7} {:>6} {:>10} {:>10} {:>8} {:>9} {:>11} {:>12}{cost} {:>11}  {}",
            "machine", "batch", "per core", "limit", "largest", "step", "epoch", "run", "compiled in", "source"
        ));
    }

    /// Our own estimate, before any compiler.
    pub fn estimated(&mut self, target: &str, row: Value) {
        self.head(&row);
        self.show(&row, "estimate");
        let is_all = row["complete"] == true;
        self.of(target, |board| {
            (board.row, board.estimate, board.finished) = (row.clone(), row, is_all);
            board.left = if is_all { 0 } else { board.left };
        });
    }

    pub fn began(&mut self, target: &str, what: String) {
        self.of(target, |board| board.current = Some((what, Instant::now())));
        self.draw();
    }

    pub fn answered(&mut self, target: &str, answer: Answer) {
        let Answer { row, next, left } = answer;
        let finished = next.is_none();
        let Some(board) = self.boards.iter().find(|board| board.target == target) else { return };
        let (shown, estimate) = (board.shown.clone(), board.estimate.clone());
        self.head(&row);
        if !self.json && shown.is_none() && !finished {
            // Before the search, the largest batch lies on a line through the first compilation.
            self.show(&row, "compiler; largest batch still estimated");
            self.of(target, |board| board.shown = Some(row["batch_size"].clone()));
        } else if !self.json && finished {
            // A row that was printed already is not printed again: only what is new.
            let is_shown = row["error"].is_null() && shown.as_ref() == Some(&row["batch_size"]);
            match is_shown {
                true => self.print(&format!("{target:<7} largest batch that fits, compiled: {}", row["largest_batch"])),
                false => self.show(&row, "compiler"),
            }
            details(&row, &estimate).iter().for_each(|line| self.print(line));
        }
        self.of(target, |board| {
            (board.row, board.compiled, board.finished, board.left, board.current) = (row, true, finished, left, None);
        });
        if self.json {
            while let Some(board) = self.boards.get(self.printed).filter(|board| board.finished) {
                if board.compiled {
                    Json::line(board.row.clone());
                }
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
            self.notes().iter().for_each(|note| self.print(note));
        }
        if !finished {
            eprintln!("octant: stopped; {}", self.summary());
        }
    }

    /// What the figures are worth, and which machine comes first.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let is_board = |board: &&Row| Board::named(&board.target).is_ok();
        let compiled = self.boards.iter().any(|board| board.compiled && board.row["error"].is_null());
        if self.boards.iter().any(|board| is_board(&board)) {
            notes.push(format!(
                "The time of a step on a board is its compiler's estimate, or what arithmetic and memory allow at best, times \
                 {OPTIMISM}: that is how much longer a ResNet-50 took on a v2-8 than its compiler had thought."
            ));
        }
        if compiled && self.boards.iter().any(|board| board.compiled && !board.estimate.is_null()) {
            notes.push(
                "Where there is a compiler's row, trust it: a compiler decides what is fused, which values share memory and how \
                 kernels are scheduled. The estimate counts every stored value once and every operation at the speed of memory or \
                 arithmetic; the two differ by up to a factor of 2.5."
                    .into(),
            );
        }
        if self.boards.iter().any(|board| Gpu::named(&board.target).is_ok()) {
            notes.push(
                "GPUs are estimated: memory from the lifetimes of the program's values, times from what steps reached on an H200, \
                 scaled by the published arithmetic and bandwidth. --on cuda compiles on the GPU of this machine."
                    .into(),
            );
        }
        if self.only_estimates && compiled {
            notes.push(
                "--quick compiles short, slow code: the compiler needs longer for training itself, whose code takes more memory."
                    .into(),
            );
        }
        notes.extend(self.advice());
        notes
    }

    /// Which machine is the fastest, and which the cheapest.
    fn advice(&self) -> Option<String> {
        let fitting: Vec<&Row> = self.boards.iter().filter(|board| board.row["fits"] == true).collect();
        let least = |key: &str| {
            let known = fitting.iter().filter_map(|board| Some((board.row[key].as_f64()?, board.target.as_str())));
            known.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let (seconds, fastest) = least("recipe_seconds_estimate").filter(|_| fitting.len() > 1)?;
        let time = duration(Duration::from_secs_f64(seconds));
        let cheapest = least("price_estimate");
        Some(match cheapest {
            Some((price, cheapest)) => {
                format!("Fastest: {fastest}, {time}. Cheapest: {cheapest}, {price:.2} for the run.")
            }
            None => format!("Fastest: {fastest}, {time} for the run. --price NAME=PER_HOUR,… tells the cheapest."),
        })
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
            false => self.print(&line(row, source, self.priced)),
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

fn memory(row: &Value, key: &str) -> String {
    row[key].as_u64().map_or_else(|| "unknown".into(), bytes)
}

fn time(row: &Value, key: &str) -> String {
    row[key].as_f64().map_or_else(|| "unknown".into(), |seconds| duration(Duration::from_secs_f64(seconds)))
}

fn line(row: &Value, source: &str, priced: bool) -> String {
    let target = row["target"].as_str().unwrap_or_default();
    if let Some(error) = row["error"].as_str() {
        return format!("{target:<7} no: {error}");
    }
    let cost = row["price_estimate"].as_f64().map_or_else(|| "-".into(), |price| format!("{price:.2}"));
    let cost = if priced { format!(" {cost:>9}") } else { String::new() };
    format!(
        "{target:<7} {:>6} {:>10} {:>10} {:>8} {:>9} {:>11} {:>12}{cost} {:>11}  {source}{}",
        row["batch_size"].to_string(),
        memory(row, "hbm_bytes_per_core"),
        memory(row, "hbm_limit_bytes"),
        row["largest_batch"].to_string(),
        time(row, "step_seconds_estimate"),
        time(row, "epoch_seconds_estimate"),
        time(row, "recipe_seconds_estimate"),
        if row["estimate"] == true { "-".into() } else { time(row, "compile_seconds") },
        if row["fits"] == true { "" } else { "; does not fit" },
    )
}

/// What is known of a board once its compiler is done, below its row.
fn details(row: &Value, estimate: &Value) -> Vec<String> {
    if !row["error"].is_null() {
        return Vec::new();
    }
    let mut lines = vec![format!(
        "        evaluation needs {}; {:.1} TFLOP and {} per step",
        memory(row, "evaluation_hbm_bytes_per_core"),
        row["flops_per_step"].as_f64().unwrap_or(0.0) / 1e12,
        row["bytes_per_step"].as_f64().map_or_else(|| "an unknown traffic".into(), |count| bytes(count as u64)),
    )];
    let step = |row: &Value| row["step_seconds_estimate"].as_f64();
    let is_same_batch = row["batch_size"] == estimate["batch_size"];
    if let (Some(compiled), Some(estimated)) = (step(row), step(estimate).filter(|_| is_same_batch)) {
        lines.push(format!(
            "        the estimate was {} and {} per step: {:.1} × the compiler's time",
            memory(estimate, "hbm_bytes_per_core"),
            time(estimate, "step_seconds_estimate"),
            estimated / compiled
        ));
    }
    if let (Some(count), Some(command)) = (row["saved"].as_u64(), row["train"].as_str()) {
        lines.push(format!("        {count} programs are kept; on the board, this starts at once: {command}"));
    }
    lines
}
