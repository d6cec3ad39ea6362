//! Large images of a data set in tiles that overlap, with the labels of what lies in each.

use super::{LabeledImage, RelativeBox};
use octant_imaging::geometry::{PixelWindow, tile_starts};
use octant_imaging::polygon;
use std::str::FromStr;

/// The part of an object that a tile must have for its label: DOTA's own rule.
const SHARE: f64 = 0.7;

/// How images are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageTiles {
    /// The side of a tile; smaller images stay whole.
    pub side: usize,
    /// Pixels that neighbors share, at least. Objects that are larger may be in no tile as a whole.
    pub overlap: usize,
}

impl FromStr for ImageTiles {
    type Err = String;

    /// A side, and after a comma an overlap; a fifth of the side if not given.
    fn from_str(text: &str) -> Result<ImageTiles, String> {
        let refused =
            || format!("{text:?} are no tiles; give a side, or a side and a smaller overlap, such as 1024,200");
        let (side, overlap) = match text.split_once(',') {
            Some((side, overlap)) => (side, Some(overlap.trim().parse().map_err(|_| refused())?)),
            None => (text, None),
        };
        let side: usize = side.trim().parse().map_err(|_| refused())?;
        let overlap = overlap.unwrap_or(side / 5);
        if side < 32 || overlap >= side { Err(refused()) } else { Ok(ImageTiles { side, overlap }) }
    }
}

impl ImageTiles {
    /// The tiles of an image of that height and width.
    pub fn windows(&self, [height, width]: [usize; 2]) -> Vec<PixelWindow> {
        let [tall, wide] = [height, width].map(|length| length.min(self.side));
        let starts = |length: usize| tile_starts(length, self.side, self.overlap);
        let columns = starts(width);
        let window = |top: usize| columns.iter().map(move |&left| PixelWindow { top, left, height: tall, width: wide });
        starts(height).into_iter().flat_map(window).collect()
    }
}

/// What a tile of an image of that height and width has of its objects. `kept` says of each whether some tile has it.
pub(super) fn in_tile(
    image: &LabeledImage,
    [height, width]: [usize; 2],
    window: &PixelWindow,
    kept: &mut [bool],
) -> Vec<RelativeBox> {
    let (left, top) = (window.left as f32, window.top as f32);
    let (tall, wide) = (window.height as f32, window.width as f32);
    let mut objects = Vec::new();
    for (object, kept) in image.boxes.iter().zip(kept) {
        let whole = object.in_pixels(height, width).moved(|[x, y]| [x - left, y - top]);
        let mut part = whole.clone();
        part.clip([0.0, 0.0, wide, tall]);
        if part.area() <= 0.0 || area(&part) < SHARE * area(&whole) {
            continue;
        }
        *kept = true;
        // The box around what is left of a rotated one may reach over the tile's edge by a little.
        let share = |[x, y]: [f32; 2]| [(x / wide).clamp(0.0, 1.0), (y / tall).clamp(0.0, 1.0)];
        let part = part.moved(share);
        let corners = part.corners().map(|edge| f64::from(edge).clamp(0.0, 1.0));
        objects.push(RelativeBox { class: part.class, corners, detail: part.detail });
    }
    objects
}

/// The area of what is known to belong to an object.
fn area(object: &crate::LabeledBox) -> f64 {
    let signed = |ring: &crate::Ring| {
        let area = polygon::area(&crate::objects::widened(&ring.points));
        if ring.is_hole { -area } else { area }
    };
    object.rings().iter().map(signed).sum::<f64>().max(0.0)
}
