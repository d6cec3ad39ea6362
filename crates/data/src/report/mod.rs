//! Reports about a data set: problems, statistics and contact sheets.

mod findings;
mod sheet;
mod stats;
mod survey;
mod terminal;

pub use findings::{FindingKind, findings};
pub use sheet::{SheetOptions, contact_sheet};
pub use stats::Statistics;
pub use survey::{Survey, Twins, survey};
pub use terminal::{Graphics, to_terminal};
