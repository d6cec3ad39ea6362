//! Lines and dots on color images, for showing labels and predictions.

use crate::Image;
use crate::polygon::Point;

/// Sets the pixels within half the thickness of a point.
pub fn dot(image: &mut Image<u8>, [x, y]: Point, thickness: f64, color: [u8; 3]) {
    let radius = thickness / 2.0;
    let range = |center: f64, limit: usize| {
        let low = (center - radius).floor().clamp(0.0, limit as f64) as usize;
        low..((center + radius).ceil().clamp(0.0, limit as f64) as usize)
    };
    let (rows, columns) = (range(y, image.height()), range(x, image.width()));
    for row in rows {
        for column in columns.clone() {
            let (dx, dy) = (column as f64 + 0.5 - x, row as f64 + 0.5 - y);
            if dx * dx + dy * dy <= radius * radius {
                image.row_mut(row)[3 * column..3 * column + 3].copy_from_slice(&color);
            }
        }
    }
}

/// A line between two points.
pub fn line(image: &mut Image<u8>, [from, to]: [Point; 2], thickness: f64, color: [u8; 3]) {
    if ![from, to].concat().iter().all(|v| v.is_finite()) {
        return;
    }
    let length = (to[0] - from[0]).hypot(to[1] - from[1]);
    // Far outside there is nothing to see, and no need for millions of dots.
    let steps = (length * 2.0).ceil().clamp(1.0, 1e5) as usize;
    for step in 0..=steps {
        let share = step as f64 / steps as f64;
        let point = [0, 1].map(|axis| from[axis] + share * (to[axis] - from[axis]));
        dot(image, point, thickness.max(1.5), color);
    }
}

/// The lines between points and back to the first.
pub fn outline(image: &mut Image<u8>, points: &[Point], thickness: f64, color: [u8; 3]) {
    for (&from, &to) in points.iter().zip(points.iter().cycle().skip(1)) {
        line(image, [from, to], thickness, color);
    }
}
