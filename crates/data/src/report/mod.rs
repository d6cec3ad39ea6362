//! Looking at a data set as a whole: is it sound, what is in it, what does it look like.

mod sheet;
mod stats;
mod survey;
mod terminal;

pub use sheet::{SheetOptions, contact_sheet};
pub use stats::Statistics;
pub use survey::{Survey, Twins, survey};
pub use terminal::{Graphics, to_terminal};
