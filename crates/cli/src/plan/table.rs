//! What `octant plan` prints: rows on standard output, and on a terminal one line below them about what is being compiled.

use crate::hints;
use crate::output::{self, Json, duration};
use octant_plan::text::{self, details, line};
use octant_plan::{PlanObserver, PlanProgress, PlanRequest, PlanRow, Turn, fastest_and_cheapest};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// The rows so far. Only one thread has it, so no line is printed into another.
pub(super) struct PlanTable<'a> {
    json: bool,
    request: &'a PlanRequest,
    /// The command that finds stored programs, for a batch.
    train: &'a dyn Fn(usize) -> String,
    /// Whether the line about what is being compiled is shown.
    live: bool,
    progress: PlanProgress,
    /// The batch of the compiled row of a machine that was printed before its largest batch was known.
    shown: BTreeMap<String, usize>,
    /// JSON rows are printed in the order of the machines; so many were.
    printed: usize,
    /// Whether it was printed how many images an epoch has.
    epoch_is_known: bool,
}

impl PlanObserver for PlanTable<'_> {
    fn noted(&mut self, note: String) {
        eprintln!("note: {}", hints::with_flags(&note));
    }

    fn estimated(&mut self, row: PlanRow) {
        self.head(&row);
        self.show(&row, "estimate");
        text::shardings(&row).iter().filter(|_| !self.json).for_each(|line| self.print(line));
        self.progress.estimated(&row);
    }

    fn began(&mut self, machine: &str, what: String) {
        self.progress.began(machine, what);
        self.tick();
    }

    fn compiled(&mut self, turn: Turn) {
        self.head(&turn.row);
        self.progress.compiled(&turn);
        match self.json {
            true => self.finished_rows(),
            false => self.compiled_row(&turn),
        }
    }

    /// The line about what is being compiled.
    fn tick(&mut self) {
        if self.live {
            let (seconds, left) = (self.progress.elapsed().as_secs(), self.progress.left());
            let current = self.progress.under_way().join(" | ");
            let text = format!("{seconds} s, at most {left} compilations left; Ctrl-C keeps what is known | {current}");
            eprint!("\r\x1b[2K{}", output::shortened(&text));
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
        let live = !json && std::io::stderr().is_terminal();
        let (progress, shown) = (PlanProgress::new(request, targets), BTreeMap::new());
        let table = PlanTable { json, request, train, live, progress, shown, printed: 0, epoch_is_known: false };
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

    /// What a compilation has added to what was printed of its machine.
    fn compiled_row(&mut self, turn: &Turn) {
        let row = &turn.row;
        let shown = self.shown.get(&row.target).copied();
        if turn.next.is_some() {
            if shown.is_none() {
                // Before the search, the largest batch lies on a line through the first compilation.
                self.show(row, "compiler; largest batch still estimated");
                self.shown.extend(row.batch_size.map(|batch| (row.target.clone(), batch)));
            }
            return;
        }
        // A row that was printed already is not printed again: only what is new.
        let is_shown = row.error.is_none() && shown.is_some() && shown == row.batch_size;
        match row.largest_batch.filter(|_| is_shown) {
            Some(largest) => self.print(&format!("{:<7} largest batch that fits, compiled: {largest}", row.target)),
            None => self.show(row, "compiler"),
        }
        let machine = self.progress.machines().iter().find(|machine| machine.name == row.target);
        let estimate = machine.and_then(|machine| machine.estimate.as_ref());
        details(row, estimate).iter().for_each(|line| self.print(line));
        if let (Some(count), Some(batch)) = (row.saved, row.batch_size) {
            let command = (self.train)(batch);
            self.print(&format!("        {count} programs are stored; on the board, this starts at once: {command}"));
        }
    }

    /// JSON rows of machines that are finished, in their order.
    fn finished_rows(&mut self) {
        while self.progress.machines().get(self.printed).is_some_and(|machine| machine.finished) {
            self.json_row(self.printed);
            self.printed += 1;
        }
    }

    /// The last lines, once nothing is being compiled.
    pub fn close(&mut self, finished: bool) {
        self.wipe();
        self.live = false;
        let rows = self.progress.rows();
        if self.json {
            (self.printed..self.progress.machines().len()).for_each(|index| self.json_row(index));
        } else {
            let notes = text::notes(&rows, self.progress.has_both(), self.request);
            notes.iter().chain(&advice(&rows)).for_each(|line| self.print(line));
        }
        if !finished {
            eprintln!("octant: stopped; {}", self.progress.summary());
        }
    }

    /// Machines that could not be planned.
    pub fn failed(&self) -> Vec<&str> {
        self.progress.failed()
    }

    /// The compiled row of a machine as JSON; estimates were printed at once.
    fn json_row(&self, index: usize) {
        let machine = &self.progress.machines()[index];
        if let Some(row) = machine.row.as_ref().filter(|_| machine.compiled) {
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

/// Which machine is the fastest, and which the cheapest.
fn advice(rows: &[&PlanRow]) -> Option<String> {
    let ((seconds, fastest), cheapest) = fastest_and_cheapest(rows)?;
    let time = duration(Duration::from_secs_f64(seconds));
    Some(match cheapest {
        Some((price, name)) => format!("Fastest: {fastest}, {time}. Cheapest: {name}, {price:.2} for the run."),
        None => format!("Fastest: {fastest}, {time} for the run. --price NAME=PER_HOUR,… shows the cheapest."),
    })
}
