//! One validation image over the epochs, from the event file.

use super::{CAPTION, INK};
use crate::Result;
use octant_data::decode::{DecodeOptions, decode};
use octant_data::{AnyImage, Target};
use octant_events::{Canvas, EventContent, Value, read_run};
use octant_imaging::Image;
use std::collections::BTreeMap;
use std::path::Path;

/// Epochs side by side at most.
const SHOWN: usize = 10;
/// Small images are enlarged and large ones shrunk to about this many pixels.
const SIDE: usize = 128;
const GAP: usize = 4;

/// Input, outputs of some epochs, and the truth where there is one; none where the run wrote no samples.
pub(super) fn draw(run: &Path, input: &Image<u8>, truth: Option<&Target>) -> Result<Option<Canvas>> {
    let outputs = outputs(run)?;
    let Some(first) = outputs.first().map(|(_, image)| image) else { return Ok(None) };
    let wide = match first.width() {
        width if width < SIDE => width * SIDE.div_ceil(width.max(1)),
        width => width.min(2 * SIDE),
    };
    let tall = (first.height() * wide / first.width().max(1)).max(1);
    let mut cells = vec![("input".to_string(), input)];
    cells.extend(chosen(outputs.len()).map(|index| (format!("epoch {}", outputs[index].0), &outputs[index].1)));
    if let Some(Target::Image(truth)) = truth {
        cells.push(("truth".into(), truth));
    }
    let mut canvas = Canvas::new(cells.len() * (wide + GAP) + GAP, tall + CAPTION / 2 + 2 * GAP);
    for (position, (name, image)) in cells.into_iter().enumerate() {
        let x = GAP + position * (wide + GAP);
        canvas.letters([x, 2], &name, INK);
        canvas.scaled_image([x, CAPTION / 2 + GAP], [wide, tall], image);
    }
    Ok(Some(canvas))
}

/// The output of every validated epoch.
fn outputs(run: &Path) -> Result<Vec<(i64, Image<u8>)>> {
    // A resumed run may have written an epoch twice; the later one is the one that counts.
    let mut pngs = BTreeMap::new();
    for event in read_run(run)? {
        let EventContent::Values(values) = event.content else { continue };
        for (tag, value) in values {
            if let (true, Value::Image { png, .. }) = (tag == "sample", value) {
                pngs.insert(event.step, png);
            }
        }
    }
    let image = |png: &[u8]| match decode(png, &DecodeOptions::default()) {
        Ok(AnyImage::U8(image)) => Some(image),
        _ => None,
    };
    Ok(pngs.into_iter().filter_map(|(epoch, png)| Some((epoch, image(&png)?))).collect())
}

/// Evenly spaced among so many, with the first and the last.
fn chosen(count: usize) -> impl Iterator<Item = usize> {
    let shown = count.min(SHOWN);
    (0..shown).map(move |position| position * (count - 1) / (shown - 1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_epoch_are_shown() {
        assert_eq!(chosen(1).collect::<Vec<_>>(), [0]);
        assert_eq!(chosen(3).collect::<Vec<_>>(), [0, 1, 2]);
        let many: Vec<usize> = chosen(200).collect();
        assert_eq!((many.len(), many[0], many[9]), (SHOWN, 0, 199));
    }
}
