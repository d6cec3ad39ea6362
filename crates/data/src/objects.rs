//! What labels know of an object beside its class and box: its outline, its keypoints, or the corners of a rotated box. All of
//! them are points that move with the image, so that readers, transforms and batches have one representation for every task.

use crate::LabeledBox;
use octant_imaging::Image;
use octant_imaging::polygon::{self, RotatedRectangle};

/// What the labels of a data set say of every object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelKind {
    /// A class and a box.
    #[default]
    Boxes,
    /// A class and an outline.
    Outlines,
    /// A class, a box and keypoints.
    Keypoints,
    /// A class and the four corners of a rotated box.
    Corners,
}

impl LabelKind {
    /// Every kind.
    pub const ALL: [LabelKind; 4] = [LabelKind::Boxes, LabelKind::Outlines, LabelKind::Keypoints, LabelKind::Corners];

    /// What objects have, in the plural.
    pub const fn name(self) -> &'static str {
        match self {
            LabelKind::Boxes => "boxes",
            LabelKind::Outlines => "outlines",
            LabelKind::Keypoints => "keypoints",
            LabelKind::Corners => "corners",
        }
    }
}

impl std::str::FromStr for LabelKind {
    type Err = String;

    fn from_str(text: &str) -> Result<LabelKind, String> {
        let found = LabelKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("there are no labels {text:?}; choose one of boxes, outlines, keypoints, corners"))
    }
}

/// The keypoints that every object of a data set has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct KeypointLayout {
    /// How many there are.
    pub count: usize,
    /// Labels say of each whether it can be seen.
    pub visibility: bool,
    /// The number that each one has in a mirrored image; nothing where that is not known.
    pub mirrored: Option<Vec<usize>>,
}

impl KeypointLayout {
    /// Numbers per point: column, row and, where it is known, visibility.
    pub fn columns(&self) -> usize {
        if self.visibility { 3 } else { 2 }
    }
}

/// One point of an object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keypoint {
    /// Column and row.
    pub at: [f32; 2],
    /// 0 where it is not known, 1 where it is hidden, 2 where it can be seen.
    pub visibility: u8,
}

/// A closed line around pixels of an object, or around pixels in the middle of it that do not belong to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ring {
    /// Its corners; what lies inside goes by the even-odd rule.
    pub points: Vec<[f32; 2]>,
    /// Its inside does not belong to the object.
    pub is_hole: bool,
}

/// What a label knows of an object beside its class and box.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Detail {
    /// Nothing.
    #[default]
    None,
    /// Its outline; later rings set or clear what earlier ones did.
    Outline(Vec<Ring>),
    /// Its keypoints, in the order of the data set.
    Keypoints(Vec<Keypoint>),
    /// The corners of its rotated box, around it.
    Corners(Vec<[f32; 2]>),
}

fn wide([x, y]: [f32; 2]) -> [f64; 2] {
    [f64::from(x), f64::from(y)]
}

fn narrow([x, y]: [f64; 2]) -> [f32; 2] {
    [x as f32, y as f32]
}

/// Points of a polygon in f64.
pub(crate) fn widened(points: &[[f32; 2]]) -> Vec<[f64; 2]> {
    points.iter().copied().map(wide).collect()
}

fn clipped(points: &[[f32; 2]], window: [f32; 4]) -> Vec<[f32; 2]> {
    polygon::clipped(&widened(points), window.map(f64::from)).into_iter().map(narrow).collect()
}

impl Detail {
    /// Whether there is nothing.
    pub fn is_none(&self) -> bool {
        matches!(self, Detail::None)
    }

    /// Every point somewhere else.
    pub fn map(&self, point: impl Fn([f32; 2]) -> [f32; 2]) -> Detail {
        let all = |points: &[[f32; 2]]| points.iter().map(|&at| point(at)).collect();
        match self {
            Detail::None => Detail::None,
            Detail::Outline(rings) => {
                Detail::Outline(rings.iter().map(|ring| Ring { points: all(&ring.points), ..*ring }).collect())
            }
            Detail::Keypoints(points) => Detail::Keypoints(
                points.iter().map(|keypoint| Keypoint { at: point(keypoint.at), ..*keypoint }).collect(),
            ),
            Detail::Corners(points) => Detail::Corners(all(points)),
        }
    }

    /// Left, top, right and bottom of an object that its points enclose; nothing for others.
    pub fn bounds(&self) -> Option<[f32; 4]> {
        let bounds =
            |points: &mut dyn Iterator<Item = [f32; 2]>| Some(polygon::bounds(points.map(wide))?.map(|v| v as f32));
        match self {
            Detail::None | Detail::Keypoints(_) => None,
            Detail::Outline(rings) => {
                bounds(&mut rings.iter().filter(|ring| !ring.is_hole).flat_map(|ring| ring.points.iter().copied()))
            }
            Detail::Corners(points) => bounds(&mut points.iter().copied()),
        }
    }

    /// The part inside a window of left, top, right and bottom: keypoints outside are not known any more, and a rotated box is
    /// the one around what is left of it.
    fn clipped(&self, window: [f32; 4]) -> Detail {
        let [x0, y0, x1, y1] = window;
        match self {
            Detail::None => Detail::None,
            Detail::Outline(rings) => {
                let rings = rings.iter().map(|ring| Ring { points: clipped(&ring.points, window), ..*ring });
                Detail::Outline(rings.filter(|ring| ring.points.len() >= 3).collect())
            }
            Detail::Keypoints(points) => Detail::Keypoints(
                points
                    .iter()
                    .map(|&Keypoint { at, visibility }| {
                        let is_inside = at[0] >= x0 && at[0] <= x1 && at[1] >= y0 && at[1] <= y1;
                        Keypoint { at, visibility: if is_inside { visibility } else { 0 } }
                    })
                    .collect(),
            ),
            Detail::Corners(points) => {
                let left = clipped(points, window);
                match left == *points {
                    true => self.clone(),
                    false => Detail::Corners(
                        RotatedRectangle::around(&widened(&left))
                            .map_or(Vec::new(), |rectangle| rectangle.corners().map(narrow).to_vec()),
                    ),
                }
            }
        }
    }

    /// Whether every ring or box of it is gone.
    fn is_empty(&self) -> bool {
        match self {
            Detail::None | Detail::Keypoints(_) => false,
            Detail::Outline(rings) => rings.iter().all(|ring| ring.is_hole),
            Detail::Corners(points) => points.len() < 3,
        }
    }

    /// The points' numbers in a mirrored image.
    pub(crate) fn renumber(&mut self, mirrored: &[usize]) {
        if let Detail::Keypoints(points) = self {
            *points = mirrored.iter().filter_map(|&number| points.get(number)).copied().collect();
        }
    }

    /// The pixels of an outline in an image of that height and width whose pixels are that many of the outline's own wide.
    pub fn mask(&self, height: usize, width: usize, ratio: f64) -> Image<u8> {
        let mut mask = Image::filled(height, width, 1, 0u8);
        let Detail::Outline(rings) = self else { return mask };
        for ring in rings {
            let points: Vec<[f64; 2]> = ring.points.iter().map(|&at| wide(at).map(|v| v / ratio)).collect();
            polygon::fill(&points, height, width, |row, columns| {
                mask.row_mut(row)[columns].fill(u8::from(!ring.is_hole));
            });
        }
        mask
    }

    /// All its numbers, one after another.
    pub(crate) fn numbers(&self) -> Vec<f32> {
        match self {
            Detail::None => Vec::new(),
            Detail::Outline(rings) => {
                let ring = |ring: &Ring| {
                    [f32::from(u8::from(ring.is_hole)), ring.points.len() as f32]
                        .into_iter()
                        .chain(ring.points.concat())
                };
                rings.iter().flat_map(|each| ring(each).collect::<Vec<_>>()).collect()
            }
            Detail::Keypoints(points) => {
                points.iter().flat_map(|point| [point.at[0], point.at[1], f32::from(point.visibility)]).collect()
            }
            Detail::Corners(points) => points.concat(),
        }
    }

    /// The rotated box; nothing for other details and for corners without an area.
    pub fn rectangle(&self) -> Option<RotatedRectangle> {
        let Detail::Corners(points) = self else { return None };
        RotatedRectangle::around(&widened(points))
    }
}

impl LabeledBox {
    /// A box from left, top, right and bottom.
    pub fn new(class: u32, [x0, y0, x1, y1]: [f32; 4]) -> LabeledBox {
        LabeledBox { class, x0, y0, x1, y1, detail: Detail::None }
    }

    /// The same with what else is known of the object.
    pub fn with(self, detail: Detail) -> LabeledBox {
        LabeledBox { detail, ..self }
    }

    /// Left, top, right and bottom.
    pub fn corners(&self) -> [f32; 4] {
        [self.x0, self.y0, self.x1, self.y1]
    }

    fn set(&mut self, [x0, y0, x1, y1]: [f32; 4]) {
        (self.x0, self.y0, self.x1, self.y1) = (x0, y0, x1, y1);
    }

    /// Width times height.
    pub fn area(&self) -> f32 {
        (self.x1 - self.x0) * (self.y1 - self.y0)
    }

    /// Every point somewhere else. The box becomes the upright one around the moved outline, or around its own moved corners.
    pub fn moved(&self, point: impl Fn([f32; 2]) -> [f32; 2]) -> LabeledBox {
        let detail = self.detail.map(&point);
        let bounds = detail.bounds().unwrap_or_else(|| {
            let [x0, y0, x1, y1] = self.corners();
            let corners = [[x0, y0], [x1, y0], [x0, y1], [x1, y1]].map(&point);
            let fold = |axis: usize, start: f32, choose: fn(f32, f32) -> f32| {
                corners.iter().map(|corner| corner[axis]).fold(start, choose)
            };
            let (low, high) = (f32::INFINITY, f32::NEG_INFINITY);
            [fold(0, low, f32::min), fold(1, low, f32::min), fold(0, high, f32::max), fold(1, high, f32::max)]
        });
        let mut moved = LabeledBox { detail, ..*self };
        moved.set(bounds);
        moved
    }

    /// The part inside a window of left, top, right and bottom; without an area where nothing is left.
    pub fn clip(&mut self, window: [f32; 4]) {
        let [x0, y0, x1, y1] = window;
        let is_inside = self.x0 >= x0 && self.y0 >= y0 && self.x1 <= x1 && self.y1 <= y1;
        if !is_inside || matches!(self.detail, Detail::Keypoints(_)) {
            self.detail = self.detail.clipped(window);
        }
        let bounds = self.detail.bounds().unwrap_or_else(|| self.corners());
        self.set([bounds[0].clamp(x0, x1), bounds[1].clamp(y0, y1), bounds[2].clamp(x0, x1), bounds[3].clamp(y0, y1)]);
        if self.detail.is_empty() {
            (self.x1, self.y1) = (self.x0, self.y0);
        }
    }

    /// Something is painted over what lies in rings: it is not part of the outline any more, and keypoints there cannot be seen.
    pub(crate) fn hide(&mut self, rings: &[Ring]) {
        match &mut self.detail {
            Detail::Outline(own) => {
                own.extend(
                    rings.iter().filter(|ring| !ring.is_hole).map(|ring| Ring { is_hole: true, ..ring.clone() }),
                );
            }
            Detail::Keypoints(points) => {
                let rings: Vec<Vec<[f64; 2]>> = rings.iter().map(|ring| widened(&ring.points)).collect();
                for keypoint in points.iter_mut().filter(|keypoint| keypoint.visibility == 2) {
                    if rings.iter().any(|ring| polygon::contains(ring, wide(keypoint.at))) {
                        keypoint.visibility = 1;
                    }
                }
            }
            Detail::None | Detail::Corners(_) => {}
        }
    }

    /// The rings around what is known to belong to the object: its outline, its rotated box, or else its box.
    pub(crate) fn rings(&self) -> Vec<Ring> {
        let ring = |points: Vec<[f32; 2]>| vec![Ring { points, is_hole: false }];
        let [x0, y0, x1, y1] = self.corners();
        match &self.detail {
            Detail::Outline(rings) => rings.clone(),
            Detail::Corners(points) => ring(points.clone()),
            Detail::None | Detail::Keypoints(_) => ring(vec![[x0, y0], [x1, y0], [x1, y1], [x0, y1]]),
        }
    }

    /// Mirrored from left to right in an image of that width.
    pub(crate) fn mirrored(&self, width: f32, layout: Option<&KeypointLayout>) -> LabeledBox {
        let mut moved = self.moved(|[x, y]| [width - x, y]);
        if let Some(mirrored) = layout.and_then(|layout| layout.mirrored.as_ref()) {
            moved.detail.renumber(mirrored);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(points: &[[f32; 2]], is_hole: bool) -> Ring {
        Ring { points: points.to_vec(), is_hole }
    }

    #[test]
    fn outlines_move_with_their_boxes_and_are_cut_with_them() {
        let outline = vec![ring(&[[2.0, 2.0], [10.0, 2.0], [10.0, 6.0], [2.0, 6.0]], false)];
        let object = LabeledBox::new(1, [2.0, 2.0, 10.0, 6.0]).with(Detail::Outline(outline));
        let turned = object.moved(|[x, y]| [y, x]);
        assert_eq!(turned.corners(), [2.0, 2.0, 6.0, 10.0]);
        let mut cut = turned;
        cut.clip([0.0, 0.0, 4.0, 100.0]);
        assert_eq!(cut.corners(), [2.0, 2.0, 4.0, 10.0]);
        let area = |object: &LabeledBox| object.detail.mask(12, 12, 1.0).values().iter().filter(|&&v| v > 0).count();
        assert_eq!(area(&cut), 16);
        cut.hide(&[ring(&[[0.0, 0.0], [12.0, 0.0], [12.0, 5.0], [0.0, 5.0]], false)]);
        assert_eq!(area(&cut), 10);
        cut.clip([50.0, 50.0, 60.0, 60.0]);
        assert_eq!(cut.area(), 0.0);
    }

    #[test]
    fn keypoints_outside_are_unknown_and_change_numbers_in_a_mirror() {
        let points = [[1.0, 1.0], [9.0, 3.0], [5.0, 2.0]].map(|at| Keypoint { at, visibility: 2 }).to_vec();
        let object = LabeledBox::new(0, [1.0, 1.0, 9.0, 3.0]).with(Detail::Keypoints(points));
        let layout = KeypointLayout { count: 3, visibility: true, mirrored: Some(vec![1, 0, 2]) };
        let mut mirrored = object.mirrored(10.0, Some(&layout));
        mirrored.clip([0.0, 0.0, 6.0, 10.0]);
        let Detail::Keypoints(points) = &mirrored.detail else { panic!("keypoints") };
        assert_eq!(
            points.iter().map(|point| (point.at, point.visibility)).collect::<Vec<_>>(),
            [([1.0, 3.0], 2), ([9.0, 1.0], 0), ([5.0, 2.0], 2),]
        );
        assert_eq!(mirrored.corners(), [1.0, 1.0, 6.0, 3.0]);
    }

    #[test]
    fn a_rotated_box_is_cut_to_the_box_around_what_is_left() {
        let corners = vec![[0.0, 4.0], [4.0, 0.0], [8.0, 4.0], [4.0, 8.0]];
        let mut object = LabeledBox::new(0, [0.0, 0.0, 8.0, 8.0]).with(Detail::Corners(corners));
        assert!((object.detail.rectangle().unwrap().area() - 32.0).abs() < 1e-4);
        object.clip([0.0, 0.0, 8.0, 4.0]);
        let rectangle = object.detail.rectangle().unwrap();
        assert!((rectangle.area() - 32.0).abs() < 1e-3, "{rectangle:?}: the smallest one around a right triangle");
        object.clip([0.0, 100.0, 8.0, 120.0]);
        assert_eq!(object.area(), 0.0);
    }
}
