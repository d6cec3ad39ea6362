//! What `octant plan` prints: rows on standard output, and on a terminal one line below them about what is being compiled.

use super::text::{self, details, line};
use crate::hints;
use crate::output::{self, Json, duration};
use octant_plan::{PlanObserver, PlanRequest, PlanRow, Turn, fastest_and_cheapest};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The rows so far. Only one thread has it, so no line is printed into another.
pub(super) struct PlanTable<'a> {
    json: bool,
    request: &'a PlanRequest,
    /// The command that finds stored programs, for a batch.
    train: &'a dyn Fn(usize) -> String,
    /// Whether the line about what is being compiled is shown.
    live: bool,
    machines: Vec<Entry>,
    begun: Instant,
    /// JSON rows are printed in the order of the machines; so many were.
    printed: usize,
    /// Whether it was printed how many images an epoch has.
    epoch_is_known: bool,
}

/// What is known of one machine.
struct Entry {
    target: String,
    row: Option<PlanRow>,
    /// Our own estimate, before any compiler.
    estimate: Option<PlanRow>,
    /// The batch of the compiled row that was printed.
    shown: Option<usize>,
    /// There is at least one compiled row.
    compiled: bool,
    finished: bool,
    /// What is being compiled, and since when.
    current: Option<(String, Instant)>,
    left: usize,
}

/// Turns of a board that has had none: the step, two to find the largest batch, the evaluation.
const TURNS: usize = 4;

impl PlanObserver for PlanTable<'_> {
    fn noted(&mut self, note: String) {
        eprintln!("note: {}", hints::with_flags(&note));
    }

    fn estimated(&mut self, row: PlanRow) {
        self.head(&row);
        self.show(&row, "estimate");
        let is_all = row.complete;
        self.of(&row.target.clone(), |entry| {
            (entry.estimate, entry.row, entry.finished) = (Some(row.clone()), Some(row), is_all);
            entry.left = if is_all { 0 } else { entry.left };
        });
    }

    fn began(&mut self, machine: &str, what: String) {
        self.of(machine, |entry| entry.current = Some((what, Instant::now())));
        self.tick();
    }

    fn compiled(&mut self, turn: Turn) {
        let Turn { row, next, left } = turn;
        let finished = next.is_none();
        let Some(entry) = self.machines.iter().find(|entry| entry.target == row.target) else { return };
        let (shown, estimate) = (entry.shown, entry.estimate.clone());
        self.head(&row);
        if !self.json && shown.is_none() && !finished {
            // Before the search, the largest batch lies on a line through the first compilation.
            self.show(&row, "compiler; largest batch still estimated");
            self.of(&row.target, |entry| entry.shown = row.batch_size);
        } else if !self.json && finished {
            // A row that was printed already is not printed again: only what is new.
            let is_shown = row.error.is_none() && shown.is_some() && shown == row.batch_size;
            match row.largest_batch.filter(|_| is_shown) {
                Some(largest) => self.print(&format!("{:<7} largest batch that fits, compiled: {largest}", row.target)),
                None => self.show(&row, "compiler"),
            }
            details(&row, estimate.as_ref()).iter().for_each(|line| self.print(line));
            if let (Some(count), Some(batch)) = (row.saved, row.batch_size) {
                let command = (self.train)(batch);
                self.print(&format!(
                    "        {count} programs are stored; on the board, this starts at once: {command}"
                ));
            }
        }
        self.of(&row.target.clone(), |entry| {
            (entry.row, entry.compiled, entry.finished, entry.left, entry.current) =
                (Some(row), true, finished, left, None);
        });
        if self.json {
            while self.machines.get(self.printed).is_some_and(|entry| entry.finished) {
                self.json_row(self.printed);
                self.printed += 1;
            }
        }
    }

    /// The line about what is being compiled.
    fn tick(&mut self) {
        if self.live {
            eprint!("\r\x1b[2K{}", output::shortened(&self.under_way()));
            let _ = std::io::stderr().flush();
        }
    }
}

impl<'a> PlanTable<'a> {
    pub fn new(
        request: &'a PlanRequest,
        json: bool,
        targets: &[String],
        train: &'a dyn Fn(usize) -> String,
    ) -> PlanTable<'a> {
        let entry = |target: &String| Entry {
            target: target.clone(),
            row: None,
            estimate: None,
            shown: None,
            compiled: false,
            finished: false,
            current: None,
            left: if request.quick { 2 } else { TURNS },
        };
        let machines = targets.iter().map(entry).collect();
        let live = !json && std::io::stderr().is_terminal();
        let begun = Instant::now();
        let table = PlanTable { json, request, train, live, machines, begun, printed: 0, epoch_is_known: false };
        if !json {
            let recipe = &request.recipe;
            let precision = recipe.step.precision.dtype();
            table.print(&format!("{} in {precision}, planned for machines that are not attached", recipe.name));
        }
        table
    }

    /// The lines above the columns, once it is known how many images an epoch has.
    fn head(&mut self, row: &PlanRow) {
        let Some(images) = text::epoch(row).filter(|_| !self.json && !self.epoch_is_known) else { return };
        self.epoch_is_known = true;
        self.print(&format!("an epoch is {images}"));
        self.print(&text::columns(self.is_priced()));
    }

    fn is_priced(&self) -> bool {
        !self.request.prices.is_empty()
    }

    fn under_way(&self) -> String {
        let current = self.machines.iter().filter_map(|entry| {
            let (what, since) = entry.current.as_ref()?;
            Some(format!("{}: {what} for {} s", entry.target, since.elapsed().as_secs()))
        });
        let current: Vec<String> = current.collect();
        let left: usize = self.machines.iter().map(|entry| entry.left).sum();
        let seconds = self.begun.elapsed().as_secs();
        format!("{seconds} s, at most {left} compilations left; Ctrl-C keeps what is known | {}", current.join(" | "))
    }

    /// The last lines, once nothing is being compiled.
    pub fn close(&mut self, finished: bool) {
        self.wipe();
        self.live = false;
        if self.json {
            (self.printed..self.machines.len()).for_each(|index| self.json_row(index));
        } else {
            let rows: Vec<&PlanRow> = self.machines.iter().filter_map(|entry| entry.row.as_ref()).collect();
            let both = self.machines.iter().any(|entry| entry.compiled && entry.estimate.is_some());
            text::notes(&rows, both, self.request).iter().for_each(|note| self.print(note));
            self.advice().iter().for_each(|advice| self.print(advice));
        }
        if !finished {
            eprintln!("octant: stopped; {}", self.summary());
        }
    }

    /// Which machine is the fastest, and which the cheapest.
    fn advice(&self) -> Option<String> {
        let rows: Vec<&PlanRow> = self.machines.iter().filter_map(|entry| entry.row.as_ref()).collect();
        let ((seconds, fastest), cheapest) = fastest_and_cheapest(&rows)?;
        let time = duration(Duration::from_secs_f64(seconds));
        Some(match cheapest {
            Some((price, name)) => format!("Fastest: {fastest}, {time}. Cheapest: {name}, {price:.2} for the run."),
            None => format!("Fastest: {fastest}, {time} for the run. --price NAME=PER_HOUR,… shows the cheapest."),
        })
    }

    /// How far every machine came.
    fn summary(&self) -> String {
        let state = |entry: &Entry| match entry {
            Entry { finished: true, .. } => format!("{} is complete", entry.target),
            Entry { compiled: true, .. } => format!("the largest batch of {} is an estimate", entry.target),
            Entry { row: None, .. } => format!("nothing is known of {}", entry.target),
            Entry { .. } => format!("{} is an estimate", entry.target),
        };
        self.machines.iter().map(state).collect::<Vec<_>>().join(", ")
    }

    /// Machines that could not be planned.
    pub fn failed(&self) -> Vec<&str> {
        let failed = |entry: &&Entry| entry.row.as_ref().is_some_and(|row| row.error.is_some());
        self.machines.iter().filter(failed).map(|entry| entry.target.as_str()).collect()
    }

    fn of(&mut self, target: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.machines.iter_mut().find(|entry| entry.target == target) {
            change(entry);
        }
    }

    /// The compiled row of a machine as JSON; estimates were printed at once.
    fn json_row(&self, index: usize) {
        let entry = &self.machines[index];
        if let Some(row) = entry.row.as_ref().filter(|_| entry.compiled) {
            Json::line(self.to_json(row));
        }
    }

    fn to_json(&self, row: &PlanRow) -> Value {
        let mut value = json!(row);
        value["train"] = row.saved.and(row.batch_size).map(self.train).into();
        value
    }

    fn show(&self, row: &PlanRow, source: &str) {
        match self.json {
            true => Json::line(self.to_json(row)),
            false => self.print(&line(row, source, self.is_priced())),
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
