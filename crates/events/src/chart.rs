//! Charts of curves.

use crate::pen::{Anchor, Drawing, Pen};
use crate::raster::Color;

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// What the legend calls it.
    pub name: String,
    /// Its points, from left to right; those that are not finite are left out.
    pub points: Vec<[f64; 2]>,
}

/// Curves over one axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What the horizontal axis counts.
    pub axis: String,
    /// The curves.
    pub curves: Vec<Curve>,
    /// A place on the horizontal axis worth pointing at, and what is there.
    pub mark: Option<(f64, String)>,
    /// Both axes from 0 to 1, as shares have it; what the curves need if not.
    pub shares: bool,
}

const SIZE: [usize; 2] = [960, 560];
/// Room left of, above, right of and below the curves.
const MARGIN: [f64; 4] = [112.0, 76.0, 28.0, 62.0];
/// Distinguishable without color vision too (after Okabe and Ito).
const COLOURS: [Color; 6] =
    [[0, 114, 178], [230, 120, 0], [0, 158, 115], [204, 51, 119], [86, 180, 233], [110, 110, 110]];
const GRID: Color = [225, 225, 225];
const INK: Color = [40, 40, 40];
const FAINT: Color = [150, 150, 150];
/// Positive values that span more than this are shown on a logarithmic axis: otherwise a large first value flattens all
/// others.
const WIDE: f64 = 30.0;

impl Drawing for Chart {
    fn size(&self) -> [usize; 2] {
        SIZE
    }

    fn draw(&self, pen: &mut dyn Pen) {
        let frame = Frame::around(self);
        let [left, top, right, bottom] = frame.edges();
        pen.text([left, 12.0], Anchor::Start, &self.title, INK);
        for tick in frame.x.ticks(self.axis == "epoch") {
            let [x, _] = frame.position([tick, 0.0]);
            pen.fill([x, top, 1.0, bottom - top], GRID);
            pen.text([x, bottom + 8.0], Anchor::Middle, &label(tick), INK);
        }
        for tick in frame.y.ticks(false) {
            let [_, y] = frame.position([0.0, tick]);
            pen.fill([left, y, right - left, 1.0], GRID);
            pen.text([left - 10.0, y - 8.0], Anchor::End, &label(tick), INK);
        }
        pen.text([right, bottom + 34.0], Anchor::End, &self.axis, INK);
        if let Some((position, text)) = &self.mark {
            let [x, _] = frame.position([*position, 0.0]);
            pen.fill([x - 1.0, top, 2.0, bottom - top], FAINT);
            let (anchor, x) = if x > (left + right) / 2.0 { (Anchor::End, x - 8.0) } else { (Anchor::Start, x + 8.0) };
            pen.text([x, top + 6.0], anchor, text, INK);
        }
        for (index, curve) in self.curves.iter().enumerate() {
            draw_curve(pen, &frame, curve, index);
        }
    }
}

fn draw_curve(pen: &mut dyn Pen, frame: &Frame, curve: &Curve, index: usize) {
    /// More points than this would grow together.
    const DOTTED: usize = 40;
    let color = COLOURS[index % COLOURS.len()];
    let points: Vec<[f64; 2]> = finite(curve).map(|point| frame.position(point)).collect();
    pen.path(&points, color);
    if points.len() <= DOTTED {
        points.iter().for_each(|&[x, y]| pen.fill([x - 3.0, y - 3.0, 6.0, 6.0], color));
    }
    let [left, top, _, _] = frame.edges();
    let x = left + 260.0 * index as f64;
    pen.fill([x, top - 24.0, 22.0, 6.0], color);
    pen.text([x + 30.0, top - 30.0], Anchor::Start, &curve.name, INK);
}

fn finite(curve: &Curve) -> impl Iterator<Item = [f64; 2]> + '_ {
    curve.points.iter().copied().filter(|point| point.iter().all(|value| value.is_finite()))
}

/// The values along one axis.
struct Axis {
    range: [f64; 2],
    logarithmic: bool,
}

impl Axis {
    fn along(&self, value: f64) -> f64 {
        let scaled = |value: f64| if self.logarithmic { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let [low, high] = self.range.map(scaled);
        (scaled(value) - low) / (high - low)
    }

    /// About five round numbers in the range.
    fn ticks(&self, whole: bool) -> Vec<f64> {
        let [low, high] = self.range;
        if self.logarithmic {
            let powers = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
            let digits: &[f64] = if (high / low) < 1e3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let all = powers.flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
            return all.filter(|tick| (low..=high).contains(tick)).collect();
        }
        let rough = (high - low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let round = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|&step| step >= rough);
        let step = round.unwrap_or(rough).max(if whole { 1.0 } else { 0.0 });
        let first = (low / step).ceil() as i64;
        (first..).map(|count| count as f64 * step).take_while(|&tick| tick <= high + 1e-9 * step).take(12).collect()
    }
}

/// Where values lie on the image.
struct Frame {
    x: Axis,
    y: Axis,
}

impl Frame {
    fn around(chart: &Chart) -> Frame {
        if chart.shares {
            let share = || Axis { range: [0.0, 1.0], logarithmic: false };
            return Frame { x: share(), y: share() };
        }
        let range = |axis: usize| {
            let values = chart.curves.iter().flat_map(finite).map(|point| point[axis]);
            let [low, high] = values.fold([f64::MAX, f64::MIN], |[l, h], value| [l.min(value), h.max(value)]);
            match low <= high {
                true if high - low > 1e-12 => [low, high],
                true => [low - 0.5 * low.abs().max(1e-3), low + 0.5 * low.abs().max(1e-3)],
                false => [0.0, 1.0],
            }
        };
        let [low, high] = range(1);
        let logarithmic = low > 0.0 && high / low > WIDE;
        let y = match logarithmic {
            true => [low / 1.2, high * 1.2],
            false => [low - 0.05 * (high - low), high + 0.05 * (high - low)],
        };
        Frame { x: Axis { range: range(0), logarithmic: false }, y: Axis { range: y, logarithmic } }
    }

    /// Left, top, right and bottom of the area of the curves.
    fn edges(&self) -> [f64; 4] {
        let [left, top, right, bottom] = MARGIN;
        [left, top, SIZE[0] as f64 - right, SIZE[1] as f64 - bottom]
    }

    fn position(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let [left, top, right, bottom] = self.edges();
        [left + self.x.along(x) * (right - left), bottom - self.y.along(y) * (bottom - top)]
    }
}

/// A number that is short and says as much as a chart can show.
fn label(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-3..1e5).contains(&size) => format!("{value:.1e}").replace(".0e", "e"),
        size if size >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<[f64; 2]>) -> Chart {
        let curves = vec![Curve { name: "loss".into(), points }];
        Chart { title: "loss < 1".into(), axis: "epoch".into(), curves, ..Chart::default() }
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let ticks = |low, high, logarithmic, whole| Axis { range: [low, high], logarithmic }.ticks(whole);
        assert_eq!(ticks(0.0, 1.0, false, false).len(), 6);
        assert!(ticks(0.03, 0.71, false, false).iter().all(|tick| (0.03..0.72).contains(tick)));
        assert_eq!(ticks(1.0, 3.0, false, true), [1.0, 2.0, 3.0]);
        assert_eq!(ticks(0.5, 60.0, true, false), [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(label(0.25), "0.25");
        assert_eq!(label(1e-6), "1e-6");
    }

    #[test]
    fn charts_are_drawn_whatever_the_values() {
        let curves = [
            vec![],
            vec![[1.0, 2.0]],
            vec![[0.0, f64::NAN], [1.0, 0.5]],
            vec![[0.0, 3.0], [1.0, 3.0]],
            vec![[0.0, 1e-6], [1.0, 3.0]],
        ];
        for points in curves {
            let svg = chart(points.clone()).svg();
            assert!(svg.contains("loss &lt; 1") && !svg.contains("NaN"), "{svg}");
            assert!(chart(points).canvas().png().starts_with(b"\x89PNG"));
        }
    }
}
