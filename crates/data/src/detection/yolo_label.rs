//! One line of Ultralytics' label files: a box, an outline, keypoints or four corners.

use super::{RelativeBox, checked, within_image};
use crate::{Detail, Keypoint, KeypointLayout, LabelKind, Ring};
use octant_imaging::polygon;

/// What is expected of lines.
pub(super) struct Expected<'a> {
    pub classes: usize,
    pub kind: LabelKind,
    /// The keypoints that the data set has, whether or not they are wanted.
    pub keypoints: Option<&'a KeypointLayout>,
}

/// `class` and numbers: `x y w h`, followed by keypoints where the data set has any, or the points of an outline.
pub(super) fn label(line: &str, expected: &Expected) -> Result<RelativeBox, String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let numbers: Option<Vec<f64>> = words.iter().map(|word| word.parse().ok()).collect();
    let numbers = numbers.ok_or("it has something that is not a number")?;
    let class = match numbers.first() {
        Some(&class) if class >= 0.0 && class.fract() == 0.0 && class < 1e6 => class as u32,
        _ => return Err("its class is not a number from 0 on".to_string()),
    };
    object(class, &numbers[1..], expected)
}

/// The same for a class and numbers that were read otherwise.
pub(super) fn object(class: u32, numbers: &[f64], expected: &Expected) -> Result<RelativeBox, String> {
    let of_class = Line { class, numbers, expected };
    match expected.kind {
        LabelKind::Boxes => of_class.boxed(),
        LabelKind::Outlines => of_class.outlined(),
        LabelKind::Keypoints => of_class.with_keypoints(),
        LabelKind::Corners => of_class.rotated(),
    }
}

struct Line<'a> {
    class: u32,
    numbers: &'a [f64],
    expected: &'a Expected<'a>,
}

fn points(numbers: &[f64]) -> Vec<[f64; 2]> {
    numbers.as_chunks::<2>().0.to_vec()
}

/// Left, top, right and bottom of a center and a size.
fn corners(&[x, y, width, height]: &[f64; 4]) -> [f64; 4] {
    [x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0]
}

impl Line<'_> {
    fn checked(&self, corners: [f64; 4]) -> Result<RelativeBox, String> {
        checked(self.class, corners, self.expected.classes)
    }

    /// The upright box around points.
    fn around(&self, points: &[[f64; 2]]) -> Result<RelativeBox, String> {
        self.checked(polygon::bounds(points.iter().copied()).unwrap_or_default())
    }

    /// A box, or the box around an outline.
    fn boxed(&self) -> Result<RelativeBox, String> {
        if let Some((of_box, _)) = self.keypoints_apart() {
            return self.checked(corners(of_box));
        }
        // A box may overhang the image by more: its center, width and height lie in it then, and it is clipped.
        within_image(self.numbers)?;
        match self.numbers {
            [x, y, width, height] => self.checked(corners(&[*x, *y, *width, *height])),
            numbers if numbers.len() >= 6 && numbers.len().is_multiple_of(2) => self.around(&points(numbers)),
            other => Err(format!("it has {} numbers; a box has 5, an outline 7 or more", other.len() + 1)),
        }
    }

    fn outlined(&self) -> Result<RelativeBox, String> {
        let count = self.numbers.len();
        if count == 4 {
            return Err("it has 5 numbers: a box or two points, and an outline has three points or more".to_string());
        }
        if count < 6 || !count.is_multiple_of(2) {
            return Err(format!(
                "it has {} numbers; an outline has a class and pairs for three points or more",
                count + 1
            ));
        }
        within_image(self.numbers)?;
        let outline = polygon::clipped(&points(self.numbers), [0.0, 0.0, 1.0, 1.0]);
        let object = self.around(&outline)?;
        if polygon::area(&outline) == 0.0 && !polygon::crosses_itself(&outline) {
            return Err(super::NO_AREA.to_string());
        }
        let points = outline.into_iter().map(|point| point.map(|v| v as f32)).collect();
        Ok(RelativeBox { detail: Detail::Outline(vec![Ring { points, is_hole: false }]), ..object })
    }

    /// The four numbers of the box and those of keypoints, where the line has as many as the data set's keypoints take.
    fn keypoints_apart(&self) -> Option<(&[f64; 4], &[f64])> {
        let layout = self.expected.keypoints?;
        let (of_box, rest) = self.numbers.split_first_chunk::<4>()?;
        (rest.len() == layout.count * layout.columns()).then_some((of_box, rest))
    }

    fn with_keypoints(&self) -> Result<RelativeBox, String> {
        let layout = self.expected.keypoints.ok_or("the data set names no keypoints")?;
        let columns = layout.columns();
        let (of_box, rest) = self.keypoints_apart().ok_or_else(|| {
            let wanted = 5 + layout.count * columns;
            let [count, given] = [layout.count, self.numbers.len() + 1];
            format!("it has {given} numbers; a class, a box and {count} keypoints of {columns} numbers are {wanted}")
        })?;
        within_image(of_box)?;
        let object = self.checked(corners(of_box))?;
        let mut keypoints = Vec::with_capacity(layout.count);
        for point in rest.chunks_exact(columns) {
            let visibility = match point.get(2) {
                Some(&visibility) if [0.0, 1.0, 2.0].contains(&visibility) => visibility as u8,
                Some(other) => return Err(format!("the visibility of a keypoint is {other}; it is 0, 1 or 2")),
                // Without a third number, a point that is not known has negative coordinates.
                None if point[0] < 0.0 || point[1] < 0.0 => 0,
                None => 2,
            };
            if visibility > 0 {
                within_image(point.get(..2).unwrap_or_default())?;
            }
            keypoints.push(Keypoint { at: [point[0] as f32, point[1] as f32], visibility });
        }
        Ok(RelativeBox { detail: Detail::Keypoints(keypoints), ..object })
    }

    fn rotated(&self) -> Result<RelativeBox, String> {
        if self.numbers.len() != 8 {
            return Err(format!("it has {} numbers; a class and four corners are 9", self.numbers.len() + 1));
        }
        within_image(self.numbers)?;
        let corners = points(self.numbers);
        let object = self.around(&corners)?;
        if polygon::crosses_itself(&corners) {
            return Err(
                "its corners are in an order in which their lines cross; list them around the object".to_string()
            );
        }
        if polygon::area(&corners) == 0.0 {
            return Err(super::NO_AREA.to_string());
        }
        Ok(RelativeBox {
            detail: Detail::Corners(corners.into_iter().map(|at| at.map(|v| v as f32)).collect()),
            ..object
        })
    }
}
