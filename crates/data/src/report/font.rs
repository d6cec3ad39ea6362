//! Labels on contact sheets.

use octant_imaging::{Image, font};

/// The height of a line.
pub(super) const HEIGHT: usize = 13;

/// Writes white text; what does not fit is cut off.
pub(super) fn write_text(image: &mut Image<u8>, text: &str, top: usize, left: usize, room: usize) {
    let (channels, size) = (image.channels(), HEIGHT as f32);
    font::draw(&font::fitted(text, size, room as f32), size, |column, row, share| {
        let (Ok(y), Ok(x)) = (usize::try_from(top as i32 + row), usize::try_from(left as i32 + column)) else { return };
        if y < image.height() && x < image.width() {
            for value in &mut image.row_mut(y)[x * channels..][..channels] {
                *value = (*value as f32 + (230.0 - *value as f32) * share) as u8;
            }
        }
    });
}
