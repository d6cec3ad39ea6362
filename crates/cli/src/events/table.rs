//! Scalars as tables, and back.

use super::Out;
use super::select::{Input, Selection};
use crate::output::line;
use anyhow::{Context, Result, bail};
use octant_events::{Event, EventLog, EventsError, Kind, Value, What, create_whole, write_record};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Write scalars as a table: CSV or JSON, by the name of the file
#[derive(clap::Args)]
pub(super) struct Export {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    out: Out,
}

/// Turn a CSV table into an event file: a column `step` and one column per tag
#[derive(clap::Args)]
pub(super) struct Import {
    /// The table; a column `wall_time` is used where there is one, empty cells are left out
    table: PathBuf,
    /// The new folder of the run, or event file
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
}

pub(super) fn export(arguments: &Export) -> Result<()> {
    let out = &arguments.out.out;
    let is_json = match out.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => false,
        Some("json" | "jsonl") => true,
        _ => bail!("{} should end in .csv or .json", out.display()),
    };
    let inputs = arguments.selection.inputs()?;
    let rows = create_whole(out, |out_file| {
        if !is_json {
            writeln!(out_file, "run,tag,step,wall_time,value").map_err(|e| unwritten(out, e))?;
        }
        let mut rows = 0u64;
        for input in &inputs {
            rows += rows_of(input, &arguments.selection, is_json, out_file, out)?;
        }
        Ok(rows)
    })?;
    line(format_args!("{}: {rows} values", out.display()));
    Ok(())
}

fn unwritten(path: &Path, source: std::io::Error) -> EventsError {
    EventsError::Io { action: "write", path: path.to_path_buf(), source }
}

fn rows_of(
    input: &Input,
    selection: &Selection,
    is_json: bool,
    out: &mut dyn Write,
    path: &Path,
) -> Result<u64, EventsError> {
    let mut log = EventLog::new(&input.path);
    log.read(u64::MAX)?;
    let mut rows = 0;
    for series in log.series().iter().filter(|series| series.kind == Kind::Scalar) {
        for index in 0..series.len() {
            let (step, time, number) = (series.steps[index], series.times[index], series.numbers[index]);
            if !selection.wants(step, &series.tag) {
                continue;
            }
            // JSON has no word for what is not finite; `null` would hide which it was.
            let value = if number.is_finite() { json!(number) } else { json!(number.to_string()) };
            let row = match is_json {
                true => json!({ "run": input.run, "tag": series.tag, "step": step, "wall_time": time, "value": value })
                    .to_string(),
                false => format!("{},{},{step},{time},{number}", cell(&input.run), cell(&series.tag)),
            };
            writeln!(out, "{row}").map_err(|error| unwritten(path, error))?;
            rows += 1;
        }
    }
    Ok(rows)
}

/// A cell of a CSV file; quoted where it must be, and never the beginning of a formula.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    match is_formula || text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}{}\"", if is_formula { "'" } else { "" }, text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

pub(super) fn import(arguments: &Import) -> Result<()> {
    let path = &arguments.table;
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut rows = text.lines().filter(|line| !line.trim().is_empty()).map(cells);
    let columns = rows.next().unwrap_or_default();
    let position = |name: &str| columns.iter().position(|column| column == name);
    let Some(step_column) = position("step").or_else(|| position("epoch")) else {
        bail!("{} has no column named step", path.display());
    };
    let time_column = position("wall_time");
    let mut events = vec![Event { wall_time: 0.0, step: 0, what: What::Version("brain.Event:2".into()) }];
    for (index, row) in rows.enumerate() {
        let number = |column: usize| -> Result<Option<f64>> {
            match row.get(column).map(|cell| cell.trim()).filter(|cell| !cell.is_empty()) {
                None => Ok(None),
                Some(cell) => cell
                    .parse()
                    .map(Some)
                    .map_err(|_| anyhow::anyhow!("{}, line {}: {cell:?} is not a number", path.display(), index + 2)),
            }
        };
        let Some(step) = number(step_column)? else { bail!("{}, line {}: no step", path.display(), index + 2) };
        let wall_time = time_column.map(number).transpose()?.flatten().unwrap_or(0.0);
        let mut values = Vec::new();
        for (column, name) in columns.iter().enumerate() {
            if column != step_column && Some(column) != time_column {
                values.extend(number(column)?.map(|value| (name.clone(), Value::Scalar(value as f32))));
            }
        }
        events.push(Event { wall_time, step: step as i64, what: What::Values(values) });
    }
    let is_file = arguments.out.file_name().is_some_and(|name| name.to_string_lossy().contains("tfevents"));
    let out = if is_file { arguments.out.clone() } else { arguments.out.join("events.out.tfevents.0.octant") };
    create_whole(&out, |file| {
        events.iter().try_for_each(|event| write_record(file, &event.encode())).map_err(|error| unwritten(&out, error))
    })?;
    line(format_args!("{}: {} rows of {} tags", out.display(), events.len() - 1, columns.len().saturating_sub(1)));
    Ok(())
}

/// The cells of a line of a CSV file.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            _ => cell.push(letter),
        }
    }
    cells.push(cell);
    cells
}
