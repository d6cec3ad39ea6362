//! Polygons: clipped to windows, filled row by row, their areas, and the rotated rectangles around them.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};
use std::ops::Range;

/// Column and row in pixels; pixel (0, 0) is the square from 0 to 1.
pub type Point = [f64; 2];

/// Twice the signed area: positive where the points go around clockwise, rows counting downwards.
fn doubled_area(points: &[Point]) -> f64 {
    let next = points.iter().cycle().skip(1);
    points.iter().zip(next).map(|(a, b)| a[0] * b[1] - b[0] * a[1]).sum()
}

/// The area inside.
pub fn area(points: &[Point]) -> f64 {
    doubled_area(points).abs() / 2.0
}

/// Left, top, right and bottom of the points; nothing without points.
pub fn bounds(points: impl IntoIterator<Item = Point>) -> Option<[f64; 4]> {
    points.into_iter().fold(None, |bounds, [x, y]| {
        let [x0, y0, x1, y1] = bounds.unwrap_or([x, y, x, y]);
        Some([x0.min(x), y0.min(y), x1.max(x), y1.max(y)])
    })
}

/// The part of a polygon on the inner side of a line, where `inside` is not negative (Sutherland and Hodgman, 1974).
fn cut(points: &[Point], inside: impl Fn(Point) -> f64) -> Vec<Point> {
    let mut kept = Vec::with_capacity(points.len() + 2);
    for (index, &point) in points.iter().enumerate() {
        let before = points[(index + points.len() - 1) % points.len()];
        let (from, to) = (inside(before), inside(point));
        if (from < 0.0) != (to < 0.0) {
            let share = from / (from - to);
            kept.push([before[0] + share * (point[0] - before[0]), before[1] + share * (point[1] - before[1])]);
        }
        if to >= 0.0 {
            kept.push(point);
        }
    }
    kept
}

/// The part of a polygon inside a window of left, top, right and bottom. What was several parts hangs together along the
/// window's border, where nothing is filled.
pub fn clipped(points: &[Point], [x0, y0, x1, y1]: [f64; 4]) -> Vec<Point> {
    if points.iter().all(|&[x, y]| x >= x0 && x <= x1 && y >= y0 && y <= y1) {
        return points.to_vec();
    }
    let points = cut(points, |point| point[0] - x0);
    let points = cut(&points, |point| x1 - point[0]);
    let points = cut(&points, |point| point[1] - y0);
    cut(&points, |point| y1 - point[1])
}

/// Calls `put` with the columns of every row whose pixels' centers lie inside, by the even-odd rule, in an image of that size.
pub fn fill(points: &[Point], height: usize, width: usize, mut put: impl FnMut(usize, Range<usize>)) {
    let Some([_, top, _, bottom]) = bounds(points.iter().copied()) else { return };
    let row_of = |y: f64| (y - 0.5).ceil().clamp(0.0, height as f64) as usize;
    let column_of = |x: f64| (x - 0.5).ceil().clamp(0.0, width as f64) as usize;
    let mut crossings = Vec::new();
    for row in row_of(top)..row_of(bottom) {
        let center = row as f64 + 0.5;
        crossings.clear();
        for (a, b) in points.iter().zip(points.iter().cycle().skip(1)) {
            if (a[1] <= center) != (b[1] <= center) {
                crossings.push(a[0] + (center - a[1]) / (b[1] - a[1]) * (b[0] - a[0]));
            }
        }
        crossings.sort_by(f64::total_cmp);
        for pair in crossings.chunks_exact(2) {
            let columns = column_of(pair[0])..column_of(pair[1]);
            if !columns.is_empty() {
                put(row, columns);
            }
        }
    }
}

/// Whether a point lies inside, by the even-odd rule.
pub fn contains(points: &[Point], [x, y]: Point) -> bool {
    let edges = points.iter().zip(points.iter().cycle().skip(1));
    let crossed =
        edges.filter(|(a, b)| (a[1] <= y) != (b[1] <= y) && a[0] + (y - a[1]) / (b[1] - a[1]) * (b[0] - a[0]) > x);
    crossed.count() % 2 == 1
}

/// On which side of the line from `a` to `b` a point lies.
fn side(a: Point, b: Point, point: Point) -> f64 {
    (b[0] - a[0]) * (point[1] - a[1]) - (b[1] - a[1]) * (point[0] - a[0])
}

/// Whether two edges that are not neighbors cross.
pub fn crosses_itself(points: &[Point]) -> bool {
    let count = points.len();
    let edge = |index: usize| (points[index], points[(index + 1) % count]);
    (0..count).any(|first| {
        let (a, b) = edge(first);
        let [left, right] = [a[0].min(b[0]), a[0].max(b[0])];
        (first + 2..count).filter(|second| (second + 1) % count != first).any(|second| {
            let (c, d) = edge(second);
            if c[0].max(d[0]) < left || c[0].min(d[0]) > right {
                return false;
            }
            side(a, b, c) * side(a, b, d) < 0.0 && side(c, d, a) * side(c, d, b) < 0.0
        })
    })
}

/// The corners of the smallest convex polygon around points (Andrew's monotone chain, 1979).
pub fn convex_hull(points: &[Point]) -> Vec<Point> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    sorted.dedup();
    if sorted.len() < 3 {
        return sorted;
    }
    let half = |points: &mut dyn Iterator<Item = Point>| {
        let mut chain: Vec<Point> = Vec::new();
        for point in points {
            while chain.len() >= 2 && side(chain[chain.len() - 2], chain[chain.len() - 1], point) <= 0.0 {
                chain.pop();
            }
            chain.push(point);
        }
        chain.pop();
        chain
    };
    let mut hull = half(&mut sorted.iter().copied());
    hull.extend(half(&mut sorted.iter().rev().copied()));
    hull
}

/// A rectangle that may be rotated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RotatedRectangle {
    /// Column and row of the center.
    pub center: Point,
    /// Width and height before the rotation.
    pub size: [f64; 2],
    /// By how much it is rotated, in radians, clockwise where rows count downwards.
    pub angle: f64,
}

impl RotatedRectangle {
    /// The smallest one around points; nothing where they have no area. The width is the longer side and the angle lies in
    /// −45° to 135°, so that every rectangle but a square has one description.
    pub fn around(points: &[Point]) -> Option<RotatedRectangle> {
        let hull = convex_hull(points);
        if hull.len() < 3 {
            return None;
        }
        let along = |direction: Point| {
            let [dx, dy] = direction;
            let u = bounds(hull.iter().map(|&[x, y]| [x * dx + y * dy, y * dx - x * dy]))?;
            let size = [u[2] - u[0], u[3] - u[1]];
            let middle = [(u[0] + u[2]) / 2.0, (u[1] + u[3]) / 2.0];
            let center = [middle[0] * dx - middle[1] * dy, middle[0] * dy + middle[1] * dx];
            Some(RotatedRectangle { center, size, angle: dy.atan2(dx) })
        };
        let edges = hull.iter().zip(hull.iter().cycle().skip(1));
        let rectangles = edges.filter_map(|(a, b)| {
            let length = (b[0] - a[0]).hypot(b[1] - a[1]);
            along([(b[0] - a[0]) / length, (b[1] - a[1]) / length])
        });
        let smallest = rectangles.min_by(|a, b| (a.size[0] * a.size[1]).total_cmp(&(b.size[0] * b.size[1])))?;
        (smallest.size[0] > 0.0 && smallest.size[1] > 0.0).then(|| smallest.normalized())
    }

    /// The same rectangle with its longer side as width and an angle in −45° to 135°.
    pub fn normalized(self) -> RotatedRectangle {
        let [width, height] = self.size;
        let (size, angle) =
            if width >= height { (self.size, self.angle) } else { ([height, width], self.angle + FRAC_PI_2) };
        RotatedRectangle { size, angle: (angle + FRAC_PI_4).rem_euclid(2.0 * FRAC_PI_2) - FRAC_PI_4, ..self }
    }

    /// Its corners, around it.
    pub fn corners(&self) -> [Point; 4] {
        let (sin, cos) = self.angle.sin_cos();
        let [x, y] = self.center;
        let [u, v] = self.size.map(|side| side / 2.0);
        let corner = |u: f64, v: f64| [x + u * cos - v * sin, y + u * sin + v * cos];
        [corner(u, v), corner(u, -v), corner(-u, -v), corner(-u, v)]
    }

    /// Width times height.
    pub fn area(&self) -> f64 {
        self.size[0] * self.size[1]
    }

    /// The area that both cover.
    pub fn common(&self, other: &RotatedRectangle) -> f64 {
        let reach = |one: &RotatedRectangle| one.size[0].hypot(one.size[1]) / 2.0;
        let apart = (self.center[0] - other.center[0]).hypot(self.center[1] - other.center[1]);
        if apart > reach(self) + reach(other) {
            return 0.0;
        }
        let window = other.corners();
        let sign = doubled_area(&window).signum();
        let mut points = self.corners().to_vec();
        for (index, &a) in window.iter().enumerate() {
            if points.is_empty() {
                return 0.0;
            }
            let b = window[(index + 1) % 4];
            points = cut(&points, |point| sign * side(a, b, point));
        }
        area(&points)
    }

    /// Intersection over union of the polygons; 0 where both are empty.
    pub fn iou(&self, other: &RotatedRectangle) -> f64 {
        let common = self.common(other);
        if common == 0.0 { 0.0 } else { common / (self.area() + other.area() - common) }
    }

    /// The variances along columns and rows and the covariance of the Gaussian that stands for a rectangle.
    fn covariance(&self) -> [f64; 3] {
        let [a, b] = self.size.map(|side| side * side / 12.0);
        let (sin, cos) = self.angle.sin_cos();
        [a * cos * cos + b * sin * sin, a * sin * sin + b * cos * cos, (a - b) * cos * sin]
    }

    /// 1 less the Hellinger distance of two Gaussians (Llerena et al., "Gaussian Bounding Boxes and Probabilistic
    /// Intersection-over-Union", 2021): 1 for the same rectangles, 0 far apart. It is no intersection over union of areas.
    pub fn prob_iou(&self, other: &RotatedRectangle) -> f64 {
        const EPSILON: f64 = 1e-7;
        let ([a1, b1, c1], [a2, b2, c2]) = (self.covariance(), other.covariance());
        let (a, b, c) = (a1 + a2, b1 + b2, c1 + c2);
        let [x, y] = [0, 1].map(|axis| self.center[axis] - other.center[axis]);
        let determinant = a * b - c * c;
        let near = (a * y * y + b * x * x) / (determinant + EPSILON) * 0.25 - c * x * y / (determinant + EPSILON) * 0.5;
        let own = (a1 * b1 - c1 * c1).max(0.0) * (a2 * b2 - c2 * c2).max(0.0);
        let shape = (determinant / (4.0 * own.sqrt() + EPSILON) + EPSILON).ln() * 0.5;
        let distance = (near + shape).clamp(EPSILON, 100.0);
        1.0 - (1.0 - (-distance).exp() + EPSILON).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(x: f64, y: f64, side: f64) -> Vec<Point> {
        vec![[x, y], [x + side, y], [x + side, y + side], [x, y + side]]
    }

    #[test]
    fn polygons_are_clipped_and_measured() {
        assert_eq!(area(&square(1.0, 2.0, 3.0)), 9.0);
        assert_eq!(area(&clipped(&square(-1.0, -1.0, 3.0), [0.0, 0.0, 10.0, 10.0])), 4.0);
        assert!(clipped(&square(20.0, 0.0, 3.0), [0.0, 0.0, 10.0, 10.0]).is_empty());
        let crossed = [[0.0, 0.0], [4.0, 4.0], [4.0, 0.0], [0.0, 4.0]];
        assert!(crosses_itself(&crossed) && !crosses_itself(&square(0.0, 0.0, 1.0)));
    }

    #[test]
    fn what_is_filled_are_the_pixels_with_their_center_inside() {
        let pixels = |points: &[Point]| {
            let mut filled = Vec::new();
            fill(points, 6, 6, |row, columns| filled.extend(columns.map(|column| (row, column))));
            filled
        };
        assert_eq!(pixels(&square(1.4, 2.5, 2.0)), [(2, 1), (2, 2), (3, 1), (3, 2)]);
        assert_eq!(pixels(&square(-9.0, -9.0, 40.0)).len(), 36);
        // A ring that goes twice around its middle leaves it out.
        let twice: Vec<Point> = square(0.0, 0.0, 6.0)
            .into_iter()
            .chain([[0.0, 0.0]])
            .chain(square(2.0, 2.0, 2.0))
            .chain([[2.0, 2.0]])
            .collect();
        assert_eq!(pixels(&twice).len(), 32);
        assert!(pixels(&[[1.0, 1.0], [3.0, 1.0]]).is_empty());
    }

    #[test]
    fn rectangles_around_points_are_the_ones_that_the_points_were_made_of() {
        for (angle, expected) in
            [(0.3, 0.3), (-0.7, -0.7), (1.5, 1.5), (3.0, 3.0 - 2.0 * FRAC_PI_2), (-1.4, -1.4 + 2.0 * FRAC_PI_2)]
        {
            let made = RotatedRectangle { center: [30.0, 20.0], size: [12.0, 5.0], angle };
            let [a, b, c, d] = made.corners();
            for order in [[a, b, c, d], [c, a, d, b], [d, c, b, a]] {
                let found = RotatedRectangle::around(&order).unwrap();
                assert!((found.angle - expected).abs() < 1e-9, "{angle}: {found:?}");
                assert!((found.size[0] - 12.0).abs() < 1e-9 && (found.center[1] - 20.0).abs() < 1e-9);
            }
        }
        assert_eq!(RotatedRectangle::around(&[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), None);
    }

    #[test]
    fn overlaps_of_rotated_rectangles() {
        let upright = RotatedRectangle { center: [10.0, 10.0], size: [8.0, 4.0], angle: 0.0 };
        let across = RotatedRectangle { angle: FRAC_PI_2, ..upright };
        assert!((upright.iou(&across) - 16.0 / 48.0).abs() < 1e-12);
        assert!((upright.iou(&upright) - 1.0).abs() < 1e-12 && (1.0 - upright.prob_iou(&upright)) < 1e-3);
        let away = RotatedRectangle { center: [100.0, 10.0], ..upright };
        assert!(upright.iou(&away) == 0.0 && upright.prob_iou(&away) < 1e-3);
    }
}
