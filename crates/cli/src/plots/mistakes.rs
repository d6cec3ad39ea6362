//! The samples that a network was most sure of and wrong about, for the board: a list, and one image with a tile of each.

use anyhow::Result;
use octant_data::Dataset;
use octant_events::Canvas;
use octant_imaging::resize::{Method, resize_with_pad};
use octant_imaging::{Filter, Image, Semantics};
use octant_metrics::confidence::Mistake;
use serde_json::{Value, json};
use std::path::Path;

/// Pixels of a tile, and tiles in a row.
const TILE: usize = 96;
const COLUMNS: usize = 16;
/// Samples that are drawn; more are only named.
const DRAWN: usize = 256;

/// Draws `mistakes.png` and returns the list: the sample of number `i` is the tile of number `i`.
pub(super) fn save(folder: &Path, mistakes: &[Mistake], samples: &dyn Dataset) -> Result<Value> {
    let drawn = mistakes.len().min(DRAWN);
    if drawn > 0 {
        let mut canvas = Canvas::new(TILE * COLUMNS, TILE * drawn.div_ceil(COLUMNS));
        for (number, mistake) in mistakes.iter().take(drawn).enumerate() {
            // One that cannot be read any more leaves its tile empty.
            let Ok(sample) = samples.get(mistake.index as usize) else { continue };
            let corner = [number % COLUMNS * TILE, number / COLUMNS * TILE];
            canvas.image(corner, TILE, &tile(&sample.image.to_u8())?);
        }
        canvas.save(&folder.join("mistakes.png"))?;
    }
    let listed: Vec<Value> = mistakes
        .iter()
        .map(|mistake| {
            let Mistake { index, label, predicted, confidence } = *mistake;
            json!({
                "name": samples.location(index as usize), "actual": label, "predicted": predicted,
                "confidence": confidence,
            })
        })
        .collect();
    Ok(json!({ "samples": listed, "drawn": drawn, "tile": TILE, "columns": COLUMNS }))
}

/// The whole image in a square, in color.
fn tile(image: &Image<u8>) -> Result<Vec<u8>> {
    // Small images are enlarged by whole pixels, so that they stay sharp.
    let is_small = image.height().max(image.width()) <= TILE;
    let filter = if is_small { Filter::Nearest } else { Filter::Bilinear };
    let (fitted, _) = resize_with_pad(image, TILE, TILE, Method::new(filter, Semantics::Pil), 255)?;
    let channels = fitted.channels().max(1);
    let color = |pixel: &[u8]| [0, 1, 2].map(|channel| pixel[if channels < 3 { 0 } else { channel }]);
    Ok(fitted.values().chunks_exact(channels).flat_map(color).collect())
}
