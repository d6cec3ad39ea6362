//! Drawings are made once, with a pen; whether they become dots or SVG is the pen's business.

use crate::EventsError;
use crate::raster::{Canvas, Color};
use std::fmt::Write as _;
use std::path::Path;

/// Which point of a text its place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its upper left corner.
    Start,
    /// The middle of its upper edge.
    Middle,
    /// Its upper right corner.
    End,
}

/// Something to draw with. Places are in pixels from the upper left corner.
pub trait Pen {
    /// A filled box: left, top, width, height.
    fn fill(&mut self, area: [f64; 4], color: Color);

    /// Straight lines through all points.
    fn path(&mut self, points: &[[f64; 2]], color: Color);

    /// A line of text.
    fn text(&mut self, position: [f64; 2], anchor: Anchor, text: &str, color: Color);

    /// A line of text that runs upward from a place, the left end of its upper edge.
    fn text_upward(&mut self, position: [f64; 2], text: &str, color: Color);
}

/// Something that can be drawn.
pub trait Drawing {
    /// Width and height in pixels.
    fn size(&self) -> [usize; 2];

    /// Draws it on white ground.
    fn draw(&self, pen: &mut dyn Pen);

    /// The drawing as dots.
    fn canvas(&self) -> Canvas {
        let [width, height] = self.size();
        let mut canvas = Canvas::new(width, height);
        self.draw(&mut canvas);
        canvas
    }

    /// The drawing as SVG text.
    fn svg(&self) -> String {
        let mut svg = Svg::default();
        self.draw(&mut svg);
        let [width, height] = self.size();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"Roboto, sans-serif\" \
             font-size=\"{}\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
            Svg::LETTERS,
            svg.body
        )
    }

    /// Writes `name.png` and `name.svg` into a folder.
    fn save(&self, folder: &Path, name: &str) -> Result<(), EventsError> {
        self.canvas().save(&folder.join(format!("{name}.png")))?;
        let path = folder.join(format!("{name}.svg"));
        std::fs::write(&path, self.svg()).map_err(EventsError::write(&path))
    }
}

impl Pen for Canvas {
    fn fill(&mut self, area: [f64; 4], color: Color) {
        let [left, top, width, height] = area.map(|length| length.max(0.0).round() as usize);
        self.block([left, top, width.max(1), height.max(1)], color);
    }

    fn path(&mut self, points: &[[f64; 2]], color: Color) {
        let point = |point: [f64; 2]| point.map(|position| position as f32);
        points.windows(2).for_each(|pair| self.line(point(pair[0]), point(pair[1]), color));
    }

    fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, text: &str, color: Color) {
        let width = f64::from(Canvas::text_width(text));
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        self.letters([left.max(0.0) as usize, y.max(0.0) as usize], text, color);
    }

    fn text_upward(&mut self, position: [f64; 2], text: &str, color: Color) {
        self.letters_upward(position.map(|coordinate| coordinate.max(0.0) as usize), text, color);
    }
}

/// A pen that writes SVG.
#[derive(Default)]
struct Svg {
    body: String,
}

impl Svg {
    /// The size of letters that takes about as much room as those of a canvas.
    const LETTERS: f64 = 16.0;
}

// Writing to a string cannot fail, so its results are dropped.
impl Pen for Svg {
    fn fill(&mut self, [x, y, width, height]: [f64; 4], color: Color) {
        let color = hex(color);
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{color}\"/>"
        );
    }

    fn path(&mut self, points: &[[f64; 2]], color: Color) {
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let (points, color) = (points.join(" "), hex(color));
        let _ = writeln!(
            self.body,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2.5\" stroke-linejoin=\"round\"/>"
        );
    }

    fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, text: &str, color: Color) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        let (y, color) = (y + 0.8 * Svg::LETTERS, hex(color));
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{color}\">{text}</text>"
        );
    }

    fn text_upward(&mut self, [x, y]: [f64; 2], text: &str, color: Color) {
        let (x, text, color) = (x + 0.8 * Svg::LETTERS, escaped(text), hex(color));
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" transform=\"rotate(-90 {x:.1} {y:.1})\" fill=\"{color}\">{text}</text>"
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn hex([red, green, blue]: Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
