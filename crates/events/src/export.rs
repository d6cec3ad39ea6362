//! Scalars as tables.

use crate::select::{Input, Selection, StepsSeen};
use crate::{EventLog, EventsError, Kind, ParquetScalars, Series, create_whole, non_finite};
use serde_json::json;
use std::io::Write;
use std::path::Path;

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

    fn row(&mut self, run: &str, tag: &str, step: i64, time: f64, value: f32) -> std::io::Result<()> {
        match self {
            Rows::Csv(out) => writeln!(out, "{},{},{step},{time},{value}", cell(run), cell(tag)),
            Rows::Json(out) => {
                let value = non_finite(value.into()).map_or_else(|| f64::from(value).into(), serde_json::Value::from);
                writeln!(out, "{}", json!({ "run": run, "tag": tag, "step": step, "wall_time": time, "value": value }))
            }
            Rows::Parquet(table) => table.row(run, tag, step, time, value),
        }
    }

    fn finish(self) -> std::io::Result<()> {
        match self {
            Rows::Csv(_) | Rows::Json(_) => Ok(()),
            Rows::Parquet(table) => table.finish().map(drop),
        }
    }
}

/// Writes the scalars of a selection as CSV, JSON lines or Parquet, by the name of the file; returns how many there are, and the
/// steps of those whose tags were meant.
pub fn export_scalars(selection: &Selection, out: &Path) -> Result<(u64, StepsSeen), EventsError> {
    let extension = out.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if !["csv", "json", "jsonl", "parquet"].contains(&extension) {
        return Err(EventsError::Refused(format!("{} should end in .csv, .json or .parquet", out.display())));
    }
    let inputs = selection.inputs()?;
    let unwritten = EventsError::write(out);
    let mut steps = StepsSeen::default();
    let count = create_whole(out, |file| {
        let mut rows = Rows::begin(extension, file).map_err(&unwritten)?;
        let mut count = 0u64;
        for input in &inputs {
            count += rows_of(input, selection, &mut steps, |tag, step, time, value| {
                rows.row(&input.name, tag, step, time, value).map_err(&unwritten)
            })?;
        }
        rows.finish().map_err(&unwritten)?;
        Ok(count)
    })?;
    Ok((count, steps))
}

/// The scalars of a file that are selected; returns how many there are.
fn rows_of(
    input: &Input,
    selection: &Selection,
    steps: &mut StepsSeen,
    mut row: impl FnMut(&str, i64, f64, f32) -> Result<(), EventsError>,
) -> Result<u64, EventsError> {
    let mut log = EventLog::new(&input.path);
    log.read(u64::MAX)?;
    let mut rows = 0;
    let is_wanted = |series: &&Series| series.kind == Kind::Scalar && selection.wants_tag(&series.tag);
    for series in log.series().iter().filter(is_wanted) {
        for index in 0..series.len() {
            let step = series.steps[index];
            steps.add(step);
            if selection.wants(step, &series.tag) {
                row(&series.tag, step, series.times[index], series.numbers[index])?;
                rows += 1;
            }
        }
    }
    Ok(rows)
}

/// What begins a formula in a spreadsheet.
pub(crate) const FORMULA: [char; 4] = ['=', '+', '-', '@'];

/// A cell of a CSV file; quoted where it must be, and never the beginning of a formula.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(FORMULA);
    match is_formula || text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}{}\"", if is_formula { "'" } else { "" }, text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}
