//! What an object has beside its box: the polygons or runs of a mask, or keypoints.

use super::Compared;
use super::node::{MOST_PIXELS, Node};
use octant_imaging::rle::Rle;

/// How long the border of a polygon may be, in pixels: it is followed in fifths of one.
const LONGEST_BORDER: f64 = 3e6;

/// What is compared of an object.
pub(super) enum Shape {
    Box,
    /// Lists of x, y, x, y …, which together are the mask.
    Polygons(Vec<Vec<f64>>),
    Mask(Rle),
    Keypoints {
        /// Column, row and visibility of each.
        points: Vec<[f64; 3]>,
        /// How many are known, where the file says so itself.
        known: Option<i64>,
    },
}

impl Shape {
    /// That of an annotation or a prediction.
    pub fn of(row: &impl Node, compared: Compared) -> Result<Shape, String> {
        let needed = |key: &str| row.get(key).ok_or_else(|| format!("it lacks `{key}`"));
        match compared {
            Compared::Boxes => Ok(Shape::Box),
            Compared::Masks => Shape::of_segmentation(&needed("segmentation")?),
            Compared::Keypoints => {
                let numbers = needed("keypoints")?.floats();
                let known = row.get("num_keypoints").and_then(|count| count.integer());
                Shape::of_keypoints(&numbers.ok_or("its `keypoints` are no list of numbers")?, known)
            }
        }
    }

    pub fn of_keypoints(numbers: &[f64], known: Option<i64>) -> Result<Shape, String> {
        let (points, rest) = numbers.as_chunks::<3>();
        if points.is_empty() || !rest.is_empty() {
            return Err(format!("its `keypoints` are {} numbers; each has x, y and visibility", numbers.len()));
        }
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err("its `keypoints` are not finite".to_string());
        }
        Ok(Shape::Keypoints { points: points.to_vec(), known })
    }

    pub fn of_segmentation(segmentation: &impl Node) -> Result<Shape, String> {
        if segmentation.is_dictionary() {
            return runs(segmentation).map(Shape::Mask);
        }
        if let Some(mask) = segmentation.pixels() {
            return mask.map(Shape::Mask);
        }
        let listed =
            segmentation.list().ok_or("its `segmentation` is neither polygons nor runs nor an array of pixels")?;
        let polygons: Option<Vec<Vec<f64>>> = listed.iter().map(Node::floats).collect();
        let polygons = polygons.ok_or("its `segmentation` is no list of lists of numbers")?;
        if polygons.is_empty() {
            return Err("its `segmentation` is empty".to_string());
        }
        for polygon in &polygons {
            if polygon.len() < 6 || !polygon.len().is_multiple_of(2) {
                let count = polygon.len();
                return Err(format!("a polygon has {count} numbers; three points or more are pairs of 6 or more"));
            }
            if polygon.iter().any(|number| !number.is_finite()) || border(polygon) > LONGEST_BORDER {
                return Err("the points of a polygon lie too far from each other for an image".to_string());
            }
        }
        Ok(Shape::Polygons(polygons))
    }

    /// The size of the image that a mask is for, where the mask says it.
    pub fn size(&self) -> Option<[usize; 2]> {
        if let Shape::Mask(mask) = self { Some(mask.size()) } else { None }
    }

    /// The mask in an image of that height and width; none of keypoints and boxes.
    pub fn mask(&self, size: Option<[usize; 2]>) -> Result<Rle, String> {
        let [height, width] = size.ok_or("its image lists no `height` and `width`, which polygons need")?;
        match self {
            Shape::Polygons(polygons) => {
                let masks: Vec<Rle> = polygons.iter().map(|polygon| Rle::of_polygon(polygon, height, width)).collect();
                Ok(Rle::union(&masks))
            }
            Shape::Mask(mask) if mask.size() == [height, width] => Ok(mask.clone()),
            Shape::Mask(mask) => {
                let [own_height, own_width] = mask.size();
                Err(format!("its mask is for {own_height}×{own_width} pixels, and its image has {height}×{width}"))
            }
            Shape::Box | Shape::Keypoints { .. } => Err("it has no mask".to_string()),
        }
    }
}

/// The length of the border along the longer of both directions of each edge.
fn border(polygon: &[f64]) -> f64 {
    let points = polygon.as_chunks::<2>().0;
    let edges = points.iter().zip(points.iter().cycle().skip(1));
    edges.map(|(a, b)| (a[0] - b[0]).abs().max((a[1] - b[1]).abs())).sum()
}

/// Runs as numbers or as COCO's text.
fn runs(mask: &impl Node) -> Result<Rle, String> {
    let size = mask.get("size").and_then(|size| size.floats()).and_then(|size| whole_size(&size));
    let [height, width] = size.ok_or("its mask has no `size` of a height and a width")?;
    let counts = mask.get("counts").ok_or("its mask has no `counts`")?;
    if let Some(text) = counts.text() {
        return Rle::of_text(&text, height, width);
    }
    let whole =
        |number: f64| (number.fract() == 0.0 && (0.0..=MOST_PIXELS as f64).contains(&number)).then_some(number as u32);
    let counts: Option<Vec<u32>> = counts.floats().and_then(|counts| counts.into_iter().map(whole).collect());
    Rle::new(height, width, counts.ok_or("the `counts` of its mask are neither a text nor numbers of pixels")?)
}

/// A height and a width, if they are those of an image.
pub(super) fn whole_size(numbers: &[f64]) -> Option<[usize; 2]> {
    let [height, width] = numbers else { return None };
    let is_side = |side: f64| side >= 1.0 && side.fract() == 0.0;
    let is_size = is_side(*height) && is_side(*width) && height * width <= MOST_PIXELS as f64;
    is_size.then_some([*height as usize, *width as usize])
}
