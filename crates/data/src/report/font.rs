//! Labels on contact sheets.

use octant_imaging::Image;
pub(super) use octant_imaging::font::HEIGHT;
use octant_imaging::font::{ADVANCE, dots};

/// Writes white text; what does not fit is cut off.
pub(super) fn write_text(image: &mut Image<u8>, text: &str, top: usize, left: usize, room: usize) {
    let channels = image.channels();
    for (number, character) in text.chars().take(room / ADVANCE).enumerate() {
        for (row, column) in dots(character) {
            let (y, x) = (top + row, left + number * ADVANCE + column);
            if y < image.height() && x < image.width() {
                image.row_mut(y)[x * channels..][..channels].fill(230);
            }
        }
    }
}
