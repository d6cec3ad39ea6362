//! Pictures in a terminal.

use octant_imaging::Image;
use octant_imaging::resize::{Method, Resizable};
use octant_imaging::{Filter, Semantics};
use std::fmt::Write;

/// The picture as coloured half blocks, `columns` characters wide: two pixels per character, one above the other.
pub fn to_terminal(image: &Image<u8>, columns: usize) -> String {
    let columns = columns.clamp(1, image.width());
    let rows = (image.height() * columns).div_ceil(image.width()).next_multiple_of(2);
    let method = Method::new(Filter::Bilinear, Semantics::Pil);
    let small = image.resize(rows, columns, method).expect("Pillow has bilinear");
    let colour = |row: usize, column: usize| match small.pixel(row, column) {
        [r, g, b, ..] => format!("{r};{g};{b}"),
        [value, ..] => format!("{value};{value};{value}"),
        [] => String::new(),
    };
    let mut text = String::new();
    for row in (0..rows).step_by(2) {
        for column in 0..columns {
            let (upper, lower) = (colour(row, column), colour(row + 1, column));
            // Writing to a string cannot fail.
            let _ = write!(text, "\x1b[38;2;{upper};48;2;{lower}m▀");
        }
        text.push_str("\x1b[0m\n");
    }
    text
}
