//! `octant data show`: samples as one image.

use super::opened::{self, Which};
use crate::Ending;
use crate::output::{self, Json};
use anyhow::{Context, Result, bail};
use octant_data::readers::{LabelForm, join_splits};
use octant_data::report::{Graphics, SheetOptions, contact_sheet};
use octant_data::{Dataset, write_png_u8};
use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Show samples with their labels, masks or boxes as one image
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The folder or file of a data set, in any layout that can be read
    dir: PathBuf,
    /// The image to write
    #[arg(long, default_value = "sheet.png", value_name = "FILE")]
    out: PathBuf,
    /// Which samples
    #[arg(long, value_enum, default_value_t = Which::Both)]
    split: Which,
    /// What labels say of every object: boxes, outlines, keypoints or corners (of rotated boxes); or masks, a class per pixel drawn
    /// from outlines. Keypoints where the data set names them, else boxes, if not given
    #[arg(long, value_name = "KIND")]
    labels: Option<LabelForm>,
    /// Rows of samples
    #[arg(long, default_value_t = 8)]
    rows: usize,
    /// Columns of samples
    #[arg(long, default_value_t = 8)]
    columns: usize,
    /// Height and width per sample in pixels
    #[arg(long, default_value_t = 112)]
    cell: usize,
    /// Leave masks and boxes out
    #[arg(long)]
    plain: bool,
    /// Print one JSON object and show nothing in the terminal
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Ending> {
    let Arguments { dir, out, split, labels, rows, columns, cell, plain, json: as_json } = arguments;
    if rows == 0 || columns == 0 || !(16..=2048).contains(&cell) {
        bail!("--rows and --columns must be at least 1, --cell between 16 and 2048");
    }
    let splits = opened::open_labeled(&dir, split, opened::as_stored(), labels)?;
    let dataset = join_splits(&splits);
    let sheet = contact_sheet(&dataset, SheetOptions { rows, columns, cell, overlay: !plain })?;
    write_png_u8(&out, &sheet).with_context(|| format!("cannot write {}", out.display()))?;
    let shown = dataset.len().min(rows * columns);
    if as_json {
        Json::line(json!({ "event": "done", "out": out, "shown": shown, "samples": dataset.len() }));
        return Ok(Ending::Done);
    }
    if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        let graphics = Graphics::detect(|name| std::env::var(name).ok());
        print!("{}", graphics.show(&sheet, output::columns().unwrap_or(80).max(20))?);
    }
    println!("{shown} of {} samples, at equal distances, in {}", dataset.len(), out.display());
    Ok(Ending::Done)
}
