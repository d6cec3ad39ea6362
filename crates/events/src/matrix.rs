//! Tables of counts as colored squares.

use crate::pen::{Anchor, Drawing, Pen};
use crate::raster::{Canvas, Color};

/// A square table of counts: what was (rows) and what it was taken for (columns).
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// What it shows.
    pub title: String,
    /// The names of rows and columns.
    pub names: Vec<String>,
    /// All counts, row after row.
    pub counts: Vec<f64>,
}

const INK: Color = [40, 40, 40];
const PALE: Color = [110, 110, 110];
/// Names that take more pixels than this are cut.
const LONGEST: usize = 240;
/// Room for the title and what the axes mean.
const TITLE: f64 = 86.0;
/// The height of a line of text.
const LINE: f64 = Canvas::TEXT as f64;

impl Matrix {
    /// The side of a square: large enough for its count where there are few, at least visible where there are many.
    fn cell(&self) -> f64 {
        (640 / self.names.len().max(1)).clamp(4, 64) as f64
    }

    /// Squares that hold letters.
    fn is_readable(&self) -> bool {
        self.cell() >= 20.0
    }

    /// The width of the longest name, where names are written.
    fn longest(&self) -> f64 {
        let widths = self.names.iter().map(|name| f64::from(Canvas::text_width(name)).min(LONGEST as f64));
        if self.is_readable() { widths.fold(0.0, f64::max) } else { 0.0 }
    }

    fn left(&self) -> f64 {
        40.0 + self.longest()
    }

    fn top(&self) -> f64 {
        TITLE + 12.0 + self.longest()
    }
}

impl Drawing for Matrix {
    fn size(&self) -> [usize; 2] {
        let side = self.cell() * self.names.len() as f64;
        [(self.left() + side + 24.0).max(420.0) as usize, (self.top() + side + 24.0) as usize]
    }

    fn draw(&self, pen: &mut dyn Pen) {
        let (count, cell, left, top) = (self.names.len(), self.cell(), self.left(), self.top());
        pen.text([16.0, 12.0], Anchor::Start, &self.title, INK);
        pen.text([16.0, 36.0], Anchor::Start, "down: what it is", PALE);
        pen.text([16.0, 58.0], Anchor::Start, "across: what it was taken for", PALE);
        let middle = (cell - LINE) / 2.0;
        for (row, counts) in self.counts.chunks_exact(count.max(1)).enumerate() {
            let y = top + row as f64 * cell;
            let total = counts.iter().sum::<f64>().max(1.0);
            for (column, &value) in counts.iter().enumerate() {
                let x = left + column as f64 * cell;
                let share = value / total;
                pen.fill([x, y, cell - 1.0, cell - 1.0], shade(share, row == column));
                let text = format!("{value:.0}");
                if value > 0.0 && self.is_readable() && f64::from(Canvas::text_width(&text)) < cell {
                    let ink = if share > 0.45 { [255; 3] } else { INK };
                    pen.text([x + cell / 2.0, y + middle], Anchor::Middle, &text, ink);
                }
            }
            if self.is_readable() {
                let name = Canvas::fitted(&self.names[row], LONGEST);
                pen.text([left - 10.0, y + middle], Anchor::End, &name, INK);
                pen.text_upward([left + row as f64 * cell + middle, top - 8.0], &name, INK);
            }
        }
    }
}

/// Darker is more of the row: green where it is right, red where it is a mistake.
fn shade(share: f64, right: bool) -> Color {
    let full: Color = if right { [0, 110, 60] } else { [190, 30, 20] };
    full.map(|channel| (255.0 - (255.0 - channel as f64) * share.sqrt()).round() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_classes_is_drawn() {
        for count in [0, 1, 3, 10, 100] {
            let names = (0..count).map(|name| format!("class {name}")).collect();
            let matrix = Matrix { title: "confusion".into(), names, counts: vec![1.0; count * count] };
            assert!(matrix.svg().ends_with("</svg>\n"));
            assert!(matrix.canvas().png().starts_with(b"\x89PNG"));
        }
    }

    #[test]
    fn long_names_were_cut_to_four_letters() {
        let names: Vec<String> = ["wire fox terrier", "Größe", "кот"].map(str::to_string).to_vec();
        let matrix = Matrix { title: "confusion".into(), names: names.clone(), counts: vec![1.0; 9] };
        let svg = matrix.svg();
        for name in &names {
            assert_eq!(svg.matches(&format!(">{name}</text>")).count(), 2, "{name} for its row and its column");
        }
    }
}
