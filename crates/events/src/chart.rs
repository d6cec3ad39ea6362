//! Charts of curves, as SVG for pages and as PNG for everything else.

use crate::raster::{Canvas, Colour};
use std::fmt::Write as _;

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// What the legend calls it.
    pub name: String,
    /// Its points, from left to right; those that are not finite are left out.
    pub points: Vec<[f64; 2]>,
}

/// Curves over one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What the horizontal axis counts.
    pub axis: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
/// Room left of, above, right of and below the curves.
const MARGIN: [f64; 4] = [76.0, 40.0, 20.0, 46.0];
/// Distinguishable without colour vision too (after Okabe and Ito).
const COLOURS: [Colour; 6] =
    [[0, 114, 178], [230, 120, 0], [0, 158, 115], [204, 51, 119], [86, 180, 233], [110, 110, 110]];
const GRID: Colour = [225, 225, 225];
const INK: Colour = [40, 40, 40];

/// Where values lie on the picture.
struct Frame {
    x: [f64; 2],
    y: [f64; 2],
}

impl Frame {
    fn around(curves: &[Curve]) -> Frame {
        let range = |axis: usize| {
            let values = curves.iter().flat_map(finite).map(|point| point[axis]);
            let [low, high] = values.fold([f64::MAX, f64::MIN], |[l, h], value| [l.min(value), h.max(value)]);
            match low <= high {
                true if high - low > 1e-12 => [low, high],
                true => [low - 0.5 * low.abs().max(1e-3), low + 0.5 * low.abs().max(1e-3)],
                false => [0.0, 1.0],
            }
        };
        let [low, high] = range(1);
        let room = 0.05 * (high - low);
        Frame { x: range(0), y: [low - room, high + room] }
    }

    fn place(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let share = |value: f64, [low, high]: [f64; 2]| (value - low) / (high - low);
        let [left, top, right, bottom] = MARGIN;
        [left + share(x, self.x) * (WIDTH - left - right), HEIGHT - bottom - share(y, self.y) * (HEIGHT - top - bottom)]
    }
}

fn finite(curve: &Curve) -> impl Iterator<Item = [f64; 2]> + '_ {
    curve.points.iter().copied().filter(|point| point.iter().all(|value| value.is_finite()))
}

/// About five round numbers in a range.
fn ticks([low, high]: [f64; 2]) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|&step| step >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (first..).map(|count| count as f64 * step).take_while(|&tick| tick <= high + 1e-9 * step).take(12).collect()
}

/// A number that is short and says as much as a chart can show.
fn label(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-3..1e5).contains(&size) => format!("{value:.1e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_string(),
    }
}

impl Chart {
    /// The chart as SVG text.
    pub fn svg(&self) -> String {
        let frame = Frame::around(&self.curves);
        let [left, top, right, bottom] = MARGIN;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{left}\" y=\"24\" font-size=\"16\">{}</text>\n",
            escaped(&self.title)
        );
        for (axis, range) in [(0, frame.x), (1, frame.y)] {
            for tick in ticks(range) {
                let mut point = [frame.x[0], frame.y[0]];
                point[axis] = tick;
                let [x, y] = frame.place(point);
                // Writing to a string cannot fail.
                let _ = match axis {
                    0 => writeln!(
                        svg,
                        "<path d=\"M{x:.1} {top}V{y:.1}\" stroke=\"#e1e1e1\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                        y + 18.0,
                        label(tick)
                    ),
                    _ => writeln!(
                        svg,
                        "<path d=\"M{x:.1} {y:.1}H{}\" stroke=\"#e1e1e1\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                        WIDTH - right,
                        x - 6.0,
                        y + 4.0,
                        label(tick)
                    ),
                };
            }
        }
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            WIDTH - right,
            HEIGHT - bottom + 38.0,
            escaped(&self.axis)
        );
        for (index, curve) in self.curves.iter().enumerate() {
            let [r, g, b] = COLOURS[index % COLOURS.len()];
            let points: Vec<String> =
                finite(curve).map(|point| frame.place(point)).map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"rgb({r},{g},{b})\" stroke-width=\"2\"/>",
                points.join(" ")
            );
            let x = left + 12.0 + 150.0 * index as f64;
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"rgb({r},{g},{b})\"/><text x=\"{}\" y=\"{}\">{}</text>",
                top - 8.0,
                x + 18.0,
                top - 2.0,
                escaped(&curve.name)
            );
        }
        svg + "</svg>\n"
    }

    /// The chart as a picture.
    pub fn canvas(&self) -> Canvas {
        let frame = Frame::around(&self.curves);
        let [left, top, right, bottom] = MARGIN;
        let mut canvas = Canvas::new(WIDTH as usize, HEIGHT as usize);
        canvas.text([left as usize, 8], &self.title, INK);
        for (axis, range) in [(0, frame.x), (1, frame.y)] {
            for tick in ticks(range) {
                let mut point = [frame.x[0], frame.y[0]];
                point[axis] = tick;
                let [x, y] = frame.place(point).map(|place| place as usize);
                let text = label(tick);
                let width = text.chars().count() * Canvas::LETTER;
                match axis {
                    0 => {
                        canvas.fill([x, top as usize, 1, (HEIGHT - top - bottom) as usize], GRID);
                        canvas.text([x.saturating_sub(width / 2), y + 8], &text, INK);
                    }
                    _ => {
                        canvas.fill([x, y, (WIDTH - left - right) as usize, 1], GRID);
                        canvas.text([x.saturating_sub(width + 4), y.saturating_sub(5)], &text, INK);
                    }
                }
            }
        }
        let axis_width = self.axis.chars().count() * Canvas::LETTER;
        canvas.text([(WIDTH - right) as usize - axis_width.min(400), (HEIGHT - 16.0) as usize], &self.axis, INK);
        for (index, curve) in self.curves.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let points: Vec<[f32; 2]> =
                finite(curve).map(|point| frame.place(point).map(|place| place as f32)).collect();
            points.windows(2).for_each(|pair| canvas.line(pair[0], pair[1], colour));
            points.iter().filter(|_| points.len() <= 30).for_each(|&[x, y]| {
                canvas.fill([(x as usize).saturating_sub(2), (y as usize).saturating_sub(2), 5, 5], colour);
            });
            let x = left as usize + 12 + 150 * index;
            canvas.fill([x, top as usize - 12, 14, 4], colour);
            canvas.text([x + 18, top as usize - 15], &curve.name, INK);
        }
        canvas
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<[f64; 2]>) -> Chart {
        Chart { title: "loss < 1".into(), axis: "epoch".into(), curves: vec![Curve { name: "loss".into(), points }] }
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks([0.0, 1.0]).len(), 6);
        assert!(ticks([0.03, 0.71]).iter().all(|tick| (0.03..0.72).contains(tick)));
        assert_eq!(label(0.25), "0.25");
        assert_eq!(label(1e-6), "1.0e-6");
    }

    #[test]
    fn charts_are_drawn_whatever_the_values() {
        for points in [vec![], vec![[1.0, 2.0]], vec![[0.0, f64::NAN], [1.0, 0.5]], vec![[0.0, 3.0], [1.0, 3.0]]] {
            let svg = chart(points.clone()).svg();
            assert!(svg.contains("loss &lt; 1") && !svg.contains("NaN"), "{svg}");
            assert!(chart(points).canvas().png().starts_with(b"\x89PNG"));
        }
    }
}
