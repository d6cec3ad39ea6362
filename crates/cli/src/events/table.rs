//! Scalars as tables, and back.

use super::Out;
use super::select::{Input, Selection};
use crate::output::line;
use anyhow::{Context, Result, bail};
use octant_events::{
    Event, EventContent, EventLog, EventsError, Kind, ParquetScalars, Value, create_whole, write_record,
};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Write scalars as a table: CSV, JSON or Parquet, by the name of the file
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

/// The table under way, in one of its formats.
enum Rows<'a> {
    Csv(&'a mut dyn Write),
    Json(&'a mut dyn Write),
    Parquet(Box<ParquetScalars<&'a mut dyn Write>>),
}

impl<'a> Rows<'a> {
    /// The format is that of the file's name.
    fn begin(extension: &str, out: &'a mut dyn Write) -> std::io::Result<Rows<'a>> {
        match extension {
            "csv" => writeln!(out, "run,tag,step,wall_time,value").map(|()| Rows::Csv(out)),
            "parquet" => Ok(Rows::Parquet(Box::new(ParquetScalars::new(out)?))),
            _ => Ok(Rows::Json(out)),
        }
    }

    fn row(&mut self, run: &str, tag: &str, step: i64, time: f64, number: f32) -> std::io::Result<()> {
        match self {
            Rows::Csv(out) => writeln!(out, "{},{},{step},{time},{number}", cell(run), cell(tag)),
            Rows::Json(out) => {
                // JSON has no word for what is not finite; `null` would hide which it was.
                let value = if number.is_finite() { json!(number) } else { json!(number.to_string()) };
                writeln!(out, "{}", json!({ "run": run, "tag": tag, "step": step, "wall_time": time, "value": value }))
            }
            Rows::Parquet(table) => table.row(run, tag, step, time, number),
        }
    }

    fn finish(self) -> std::io::Result<()> {
        match self {
            Rows::Csv(_) | Rows::Json(_) => Ok(()),
            Rows::Parquet(table) => table.finish().map(drop),
        }
    }
}

pub(super) fn export(arguments: &Export) -> Result<()> {
    let out = &arguments.out.out;
    let extension = out.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if !["csv", "json", "jsonl", "parquet"].contains(&extension) {
        bail!("{} should end in .csv, .json or .parquet", out.display());
    }
    let inputs = arguments.selection.inputs()?;
    let unwritten = |error| unwritten(out, error);
    let count = create_whole(out, |file| {
        let mut rows = Rows::begin(extension, file).map_err(unwritten)?;
        let mut count = 0u64;
        for input in &inputs {
            count += rows_of(input, &arguments.selection, |tag, step, time, number| {
                rows.row(&input.run, tag, step, time, number).map_err(unwritten)
            })?;
        }
        rows.finish().map_err(unwritten)?;
        Ok(count)
    })?;
    line(format_args!("{}: {count} values", out.display()));
    Ok(())
}

fn unwritten(path: &Path, source: std::io::Error) -> EventsError {
    EventsError::Io { action: "write", path: path.to_path_buf(), source }
}

/// The scalars of a file that are selected; returns how many there are.
fn rows_of(
    input: &Input,
    selection: &Selection,
    mut row: impl FnMut(&str, i64, f64, f32) -> Result<(), EventsError>,
) -> Result<u64, EventsError> {
    let mut log = EventLog::new(&input.path);
    log.read(u64::MAX)?;
    let mut rows = 0;
    for series in log.series().iter().filter(|series| series.kind == Kind::Scalar) {
        for index in 0..series.len() {
            let step = series.steps[index];
            if selection.wants(step, &series.tag) {
                row(&series.tag, step, series.times[index], series.numbers[index])?;
                rows += 1;
            }
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
    let mut events = vec![Event { wall_time: 0.0, step: 0, content: EventContent::Version("brain.Event:2".into()) }];
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
        events.push(Event { wall_time, step: step as i64, content: EventContent::Values(values) });
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
