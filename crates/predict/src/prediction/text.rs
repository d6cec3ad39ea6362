//! Predictions as rows of tables and as lines of label files.

use super::{Boxes, ClassArea, Output, Prediction, Values, corners};
use octant_data::ObjectDetail;
use octant_imaging::polygon::RotatedRectangle;
use octant_imaging::rle::Rle;
use octant_metrics::boxes::{PredictedBox, Rectangle};
use std::fmt;
use std::fmt::Write as _;

impl Boxes {
    /// The text of a label file: `class x y w h score` in shares of the image's sides, one line per object that is shown.
    /// Keypoints follow the box as `x y visible`; a rotated box is four corners and a mask the outline of its largest part,
    /// both as `x y` instead of the box.
    pub fn label_file(&self, [height, width]: [usize; 2]) -> String {
        let (height, width) = (height as f64, width as f64);
        let mut text = String::new();
        for (number, found) in self.shown.iter().enumerate() {
            let Rectangle { x, y, width: wide, height: high } = found.rectangle;
            let center = [(x + wide / 2.0) / width, (y + high / 2.0) / height, wide / width, high / height];
            let points = |points: &[[f64; 2]]| points.iter().flat_map(|[x, y]| [x / width, y / height]).collect();
            let numbers: Vec<f64> = match self.details.get(number) {
                None | Some(ObjectDetail::None | ObjectDetail::Polygons(_)) => center.to_vec(),
                Some(ObjectDetail::Mask(mask)) => points(&largest_ring(mask)),
                Some(ObjectDetail::Rotated(rectangle)) => points(&rectangle.corners()),
                Some(ObjectDetail::Keypoints(all)) => {
                    let of_points = all.iter().flat_map(|[x, y, visible]| [x / width, y / height, *visible]);
                    center.into_iter().chain(of_points).collect()
                }
            };
            // A mask that is nowhere has no outline.
            if numbers.is_empty() {
                continue;
            }
            // Writing to a string cannot fail.
            let _ = write!(text, "{}", found.class);
            for number in numbers.iter().chain([&found.score]) {
                let _ = write!(text, " {number:.6}");
            }
            text.push('\n');
        }
        text
    }

    /// The names of what a table has of an object behind its box.
    fn detail_columns(&self) -> String {
        match self.details.first() {
            None | Some(ObjectDetail::None | ObjectDetail::Polygons(_)) => String::new(),
            Some(ObjectDetail::Mask(_)) => ",mask_pixels".into(),
            Some(ObjectDetail::Rotated(_)) => ",center_x,center_y,width,height,radians".into(),
            Some(ObjectDetail::Keypoints(points)) => {
                (1..=points.len()).map(|number| format!(",x_{number},y_{number},visible_{number}")).collect()
            }
        }
    }
}

/// The border of the largest part of a mask.
fn largest_ring(mask: &Rle) -> Vec<[f64; 2]> {
    mask.rings().into_iter().find(|(_, is_hole)| !is_hole).map(|(points, _)| points).unwrap_or_default()
}

/// What a table has of an object behind its box.
fn detail_fields(detail: Option<&ObjectDetail>) -> String {
    match detail {
        None | Some(ObjectDetail::None | ObjectDetail::Polygons(_)) => String::new(),
        Some(ObjectDetail::Mask(mask)) => format!(",{}", mask.area()),
        Some(ObjectDetail::Rotated(RotatedRectangle { center: [x, y], size: [width, height], angle })) => {
            format!(",{x:.1},{y:.1},{width:.1},{height:.1},{angle:.4}")
        }
        Some(ObjectDetail::Keypoints(points)) => {
            points.iter().map(|[x, y, visible]| format!(",{x:.1},{y:.1},{visible:.3}")).collect()
        }
    }
}

/// A field of CSV: quoted where it has to be.
pub fn csv_field(text: impl fmt::Display) -> String {
    let text = text.to_string();
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

impl Prediction {
    /// The first line of a table of such predictions.
    pub fn csv_header(&self) -> String {
        match &self.output {
            Output::Classes(_) => "path,class,name,probability".into(),
            Output::Labels(_) => "path,label,name,probability,threshold".into(),
            Output::Mask(mask) if mask.is_of_one_class() => "path,marked_pixels,components".into(),
            Output::Mask(_) => "path,class,name,pixels,share".into(),
            Output::Boxes(boxes) => {
                format!("path,class,name,score,left,top,right,bottom{}", boxes.detail_columns())
            }
            Output::Image(_) => "path,height,width".into(),
            Output::Values(Values { values, names }) => {
                let columns: Vec<String> = names.columns(values.len()).iter().map(csv_field).collect();
                format!("path,{}", columns.join(","))
            }
        }
    }

    /// The lines of that table; of classes the `top` likeliest.
    pub fn csv_rows(&self, top: usize) -> Vec<String> {
        let source = csv_field(self.source());
        match &self.output {
            Output::Classes(classes) => {
                let row =
                    |(class, score)| format!("{source},{class},{},{score:.6}", csv_field(classes.names.of(class)));
                classes.top(top).into_iter().map(row).collect()
            }
            Output::Labels(labels) => {
                let row = |(label, score)| {
                    let (name, threshold) = (csv_field(labels.names.of(label)), labels.threshold(label));
                    format!("{source},{label},{name},{score:.6},{threshold:.6}")
                };
                labels.chosen().into_iter().map(row).collect()
            }
            Output::Values(Values { values, .. }) => {
                let text: Vec<String> = values.iter().map(f64::to_string).collect();
                vec![format!("{source},{}", text.join(","))]
            }
            Output::Mask(mask) if mask.is_of_one_class() => {
                let [pixels, components] = mask.counts();
                vec![format!("{source},{pixels},{components}")]
            }
            Output::Mask(mask) => {
                let row = |ClassArea { class, pixels, share }: ClassArea| {
                    format!("{source},{class},{},{pixels},{share:.6}", csv_field(mask.names.of(class)))
                };
                mask.areas().into_iter().map(row).collect()
            }
            Output::Boxes(boxes) => {
                let row = |(number, found): (usize, &PredictedBox)| {
                    let detail = detail_fields(boxes.details.get(number));
                    let ([x0, y0, x1, y1], name) = (corners(found), csv_field(boxes.names.of(found.class)));
                    format!(
                        "{source},{},{name},{:.4},{x0:.1},{y0:.1},{x1:.1},{y1:.1}{detail}",
                        found.class, found.score
                    )
                };
                boxes.shown.iter().enumerate().map(row).collect()
            }
            Output::Image(image) => vec![format!("{source},{},{}", image.height(), image.width())],
        }
    }
}

/// The rows of its table, without a line break at the end.
impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.csv_rows(1).join("\n"))
    }
}
