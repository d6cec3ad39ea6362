//! What a run leaves behind: the run directory, tables, TensorBoard event files, charts.
//!
//! Everything here is append-only and can be cut back to an earlier length, because that is how a resumed run forgets
//! what happened after its checkpoint: the checkpoint remembers the [`Lengths`] of the files, and [`RunDirectory::resume`]
//! cuts them to it. So a run that was killed and one that was not leave the same bytes (times excepted, which are kept
//! in files of their own).
//!
//! Start reading at [`RunDirectory`]; event files are [`EventWriter`] and [`read_events`].

mod chart;
mod crc;
mod error;
mod matrix;
mod message;
mod pen;
mod raster;
mod reader;
mod record;
mod rundir;
mod table;
mod writer;

pub use chart::{Chart, Curve};
pub use crc::{Crc32c, crc32c};
pub use error::EventsError;
pub use matrix::Matrix;
pub use message::{Event, Histogram, Setting, Value, What};
pub use pen::{Anchor, Drawing, Pen};
pub use raster::{Canvas, Color};
pub use reader::{read_events, read_run};
pub use record::{masked, read_record, write_record};
pub use rundir::{Lengths, RunDirectory};
pub use table::{Table, quoted, read_table};
pub use writer::EventWriter;
