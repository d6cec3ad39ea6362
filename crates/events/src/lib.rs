//! What a run leaves behind: the run directory, tables, TensorBoard event files, charts.
//!
//! Everything here is append-only and can be cut back to an earlier length, because that is how a resumed run forgets
//! what happened after its checkpoint: the checkpoint remembers the [`Lengths`] of the files, and [`RunDirectory::resume`]
//! cuts them to it. So a run that was killed and one that was not leave the same bytes (times excepted, which are kept
//! in files of their own).
//!
//! Start reading at [`RunDirectory`]. Event files are written by [`EventWriter`]; [`EventLog`] follows one that grows and
//! keeps where its values lie, [`RawRecords`] reads it record by record, [`edit_files`] copies parts of it. A [`Selection`] names
//! files, runs, tags and steps, which are copied, merged, renamed, exported as tables and imported from them.

mod blocks;
mod chart;
pub mod columns;
mod copy;
mod edit;
mod error;
mod export;
mod import;
mod log;
mod matrix;
mod message;
mod parquet;
mod pen;
mod raster;
mod reader;
mod record;
mod rundir;
mod runs;
mod select;
mod series;
mod steps;
mod table;
pub mod units;
mod wandb;
mod window;
mod wire;
mod writer;

pub use blocks::block_plot;
pub use chart::{Chart, Curve};
pub use copy::{Copied, filter_files, merge_files, remove_tags, rename_tags};
pub use crc32c::crc32c;
pub use edit::{Edit, Edited, Editor, create_whole, edit_files};
pub use error::EventsError;
pub use export::export_scalars;
pub use import::{Imported, import_table};
pub use log::{EventLog, Progress};
pub use matrix::Matrix;
pub use message::{Event, EventContent, Field, Histogram, Setting, TensorValue, Value, fields};
pub use parquet::ParquetScalars;
pub use pen::{Anchor, Drawing, Pen};
pub use raster::{Canvas, Color};
pub use reader::{RawRecord, RawRecords, files_of, read_events, read_run};
pub use record::{Damage, framed, masked, write_record};
pub use rundir::{Lengths, RunDirectory};
pub use runs::{RunFolder, find_runs};
pub use select::{Input, SelectedValue, Selection, StepsSeen};
pub use series::{GRAPH_TAG, Kind, Location, Series};
pub use steps::StepRange;
pub use table::{Table, cells, metrics_json, non_finite, number_json, quoted, read_table};
pub use wandb::{WandbRun, WandbWriter};
pub use wire::Span;
pub use writer::EventWriter;
