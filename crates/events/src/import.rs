//! Tables as event files.

use crate::export::FORMULA;
use crate::{Event, EventContent, EventsError, Value, cells, create_whole, write_record};
use std::path::{Component, Path, PathBuf};

type Result<T> = std::result::Result<T, EventsError>;

/// An event file that a table became.
pub struct Imported {
    /// The file.
    pub path: PathBuf,
    /// How many values it has.
    pub values: usize,
    /// Of how many rows.
    pub rows: usize,
}

/// Which columns of a table mean what.
struct Columns {
    step: usize,
    time: Option<usize>,
    run: Option<usize>,
    values: ValueColumns,
}

enum ValueColumns {
    /// One value per row: the columns of its tag and of itself.
    Long { tag: usize, value: usize },
    /// One tag per column.
    Wide(Vec<(usize, String)>),
}

impl Columns {
    fn of(names: &[String], path: &Path) -> Result<Columns> {
        let position = |name: &str| names.iter().position(|column| column == name);
        let Some(step) = position("step").or_else(|| position("epoch")) else {
            return Err(EventsError::Malformed { path: path.into(), problem: "there is no column named step".into() });
        };
        let (time, run) = (position("wall_time"), position("run"));
        let values = match (position("tag"), position("value")) {
            (Some(tag), Some(value)) => ValueColumns::Long { tag, value },
            _ => {
                let is_tag = |column: &usize| *column != step && Some(*column) != time && Some(*column) != run;
                let tags = (0..names.len()).filter(is_tag).map(|column| (column, names[column].clone()));
                ValueColumns::Wide(tags.collect())
            }
        };
        Ok(Columns { step, time, run, values })
    }
}

/// A line of the table.
struct Row<'a> {
    path: &'a Path,
    line: usize,
    cells: Vec<String>,
}

impl Row<'_> {
    fn text(&self, column: usize) -> &str {
        let text = self.cells.get(column).map_or("", |cell| cell.trim());
        // What `export` put before the beginning of a formula.
        text.strip_prefix('\'').filter(|rest| rest.starts_with(FORMULA)).unwrap_or(text)
    }

    fn number(&self, column: usize) -> Result<Option<f64>> {
        match self.text(column) {
            "" => Ok(None),
            cell => cell.parse().map(Some).map_err(|_| self.wrong(&format!("{cell:?} is not a number"))),
        }
    }

    fn step(&self, column: usize) -> Result<i64> {
        let step = self.number(column)?.ok_or_else(|| self.wrong("no step"))?;
        match step.fract() == 0.0 {
            true => Ok(step as i64),
            false => Err(self.wrong(&format!("{step} is no step: steps are whole numbers"))),
        }
    }

    fn values(&self, columns: &ValueColumns) -> Result<Vec<(String, Value)>> {
        let scalar = |tag: &str, number: f64| (tag.to_string(), Value::Scalar(number as f32));
        match columns {
            ValueColumns::Long { tag, value } => {
                Ok(self.number(*value)?.map(|number| scalar(self.text(*tag), number)).into_iter().collect())
            }
            ValueColumns::Wide(tags) => {
                let values = tags.iter().map(|(column, tag)| Ok(self.number(*column)?.map(|it| scalar(tag, it))));
                values.filter_map(Result::transpose).collect()
            }
        }
    }

    fn wrong(&self, what: &str) -> EventsError {
        EventsError::Refused(format!("{}, line {}: {what}", self.path.display(), self.line))
    }
}

/// Turns a CSV table into event files: one that [`export_scalars`](crate::export_scalars) wrote, or a column `step` and one column
/// per tag. `out` is the new folder of the run, or an event file; the folder of runs where the table has several.
pub fn import_table(path: &Path, out: &Path) -> Result<Vec<Imported>> {
    let text = std::fs::read_to_string(path).map_err(EventsError::read(path))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut rows = lines.map(|(index, line)| Row { path, line: index + 1, cells: cells(line) });
    let names = rows.next().map(|row| row.cells).unwrap_or_default();
    let columns = Columns::of(&names, path)?;
    let mut runs: Vec<(String, Vec<Event>)> = Vec::new();
    for row in rows {
        let run = columns.run.map_or("", |column| row.text(column));
        if !Path::new(run).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(row.wrong(&format!("{run:?} cannot be the folder of a run")));
        }
        let (step, content) = (row.step(columns.step)?, EventContent::Values(row.values(&columns.values)?));
        let wall_time = columns.time.map(|column| row.number(column)).transpose()?.flatten().unwrap_or(0.0);
        let event = Event { wall_time, step, content };
        match runs.iter_mut().find(|(known, _)| known == run) {
            Some((_, events)) => events.push(event),
            None => runs.push((run.to_string(), vec![event])),
        }
    }
    write_runs(&runs, path, out)
}

/// One run becomes the folder or the file that was named; several become folders in it.
fn write_runs(runs: &[(String, Vec<Event>)], table: &Path, out: &Path) -> Result<Vec<Imported>> {
    let refused = |sentence: String| Err(EventsError::Refused(sentence));
    let is_file = out.file_name().is_some_and(|name| name.to_string_lossy().contains("tfevents"));
    let targets: Vec<PathBuf> = match runs {
        [] => return refused(format!("{} has no rows", table.display())),
        [_] if is_file => vec![out.to_path_buf()],
        _ if is_file => return refused(format!("the table has {} runs; name a folder for them", runs.len())),
        [_] => vec![out.join(FILE)],
        _ => runs.iter().map(|(run, _)| out.join(run).join(FILE)).collect(),
    };
    if let Some(there) = targets.iter().find(|target| target.exists()) {
        return refused(format!("{} exists; choose another output", there.display()));
    }
    let mut imported = Vec::new();
    for ((_, events), target) in runs.iter().zip(targets) {
        let version = Event { wall_time: 0.0, step: 0, content: EventContent::Version("brain.Event:2".into()) };
        create_whole(&target, |file| {
            let mut events = std::iter::once(&version).chain(events);
            events.try_for_each(|event| write_record(file, &event.encode())).map_err(EventsError::write(&target))
        })?;
        let values = events.iter().map(|event| match &event.content {
            EventContent::Values(values) => values.len(),
            _ => 0,
        });
        imported.push(Imported { values: values.sum(), rows: events.len(), path: target });
    }
    Ok(imported)
}

const FILE: &str = "events.out.tfevents.0.octant";
