//! What the labels of a data set of boxes are like, before anything is learned from them.

use super::DetectionSet;
use crate::{Dataset, Detail, LabelKind};
use octant_imaging::polygon;
use std::fmt;

/// Counts over a part of a data set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BoxSurvey {
    /// Images.
    pub images: usize,
    /// Images without objects.
    pub empty: usize,
    /// Objects.
    pub objects: usize,
    /// The most objects in one image.
    pub most: usize,
    /// Objects per class.
    pub per_class: Vec<(String, usize)>,
    /// How many objects have a longer side of at most 1 %, 3 %, 10 %, 30 % and 100 % of the image's.
    pub sizes: [usize; 5],
    /// Labels that are left out.
    pub dropped: usize,
    /// What labels say beside boxes.
    pub kind: LabelKind,
    /// Points of outlines, or keypoints that are known.
    pub points: usize,
    /// Outlines that cross themselves: what lies inside goes by the even-odd rule, as in COCO's own code.
    pub crossing: usize,
    /// Keypoints that are not known or hidden.
    pub unseen: [usize; 2],
}

impl BoxSurvey {
    /// The upper bounds of [`BoxSurvey::sizes`].
    pub const SIZES: [f64; 5] = [0.01, 0.03, 0.1, 0.3, 1.0];

    fn add_detail(&mut self, detail: &Detail) {
        match detail {
            Detail::None | Detail::Corners(_) => {}
            Detail::Outline(rings) => {
                self.points += rings.iter().map(|ring| ring.points.len()).sum::<usize>();
                let crosses = |points: &[[f32; 2]]| polygon::crosses_itself(&crate::objects::widened(points));
                self.crossing += usize::from(rings.iter().any(|ring| crosses(&ring.points)));
            }
            Detail::Keypoints(points) => {
                self.points += points.iter().filter(|point| point.visibility > 0).count();
                for (visibility, count) in (0..).zip(&mut self.unseen) {
                    *count += points.iter().filter(|point| point.visibility == visibility).count();
                }
            }
        }
    }

    /// Adds another part.
    pub fn add(&mut self, other: &BoxSurvey) {
        self.images += other.images;
        self.empty += other.empty;
        self.objects += other.objects;
        self.most = self.most.max(other.most);
        self.dropped += other.dropped;
        self.kind = other.kind;
        self.points += other.points;
        self.crossing += other.crossing;
        self.unseen.iter_mut().zip(other.unseen).for_each(|(own, more)| *own += more);
        self.sizes.iter_mut().zip(other.sizes).for_each(|(own, more)| *own += more);
        for (name, count) in &other.per_class {
            match self.per_class.iter_mut().find(|(known, _)| known == name) {
                Some((_, own)) => *own += count,
                None => self.per_class.push((name.clone(), *count)),
            }
        }
    }
}

/// Looks at every label of a part; no image is read.
pub fn survey(set: &DetectionSet) -> BoxSurvey {
    let (images, most, dropped) = (set.images().len(), set.most_boxes(), set.dropped().len());
    let mut result = BoxSurvey { images, most, dropped, kind: set.label_kind(), ..BoxSurvey::default() };
    let mut counts = vec![0; set.class_names().len()];
    for image in set.images() {
        result.empty += usize::from(image.boxes.is_empty());
        result.objects += image.boxes.len();
        for object in &image.boxes {
            if let Some(count) = counts.get_mut(object.class as usize) {
                *count += 1;
            }
            let [x0, y0, x1, y1] = object.corners;
            let longer = (x1 - x0).max(y1 - y0);
            let size = BoxSurvey::SIZES.iter().position(|&bound| longer <= bound).unwrap_or(4);
            result.sizes[size] += 1;
            result.add_detail(&object.detail);
        }
    }
    result.per_class = set.class_names().iter().cloned().zip(counts).collect();
    result
}

/// The figures, for people.
impl fmt::Display for BoxSurvey {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let mean = self.objects as f64 / self.images.max(1) as f64;
        write!(
            out,
            "{} {}, {mean:.1} per image, {} at most; {} images have none",
            self.objects,
            if self.kind == LabelKind::Boxes { "boxes" } else { "objects" },
            self.most,
            self.empty
        )?;
        let mut from = 0.0;
        let ranges = BoxSurvey::SIZES.iter().zip(self.sizes).map(|(&to, count)| {
            let range = format!("{count} of {from:.0}–{:.0} %", to * 100.0);
            from = to * 100.0;
            range
        });
        write!(out, "\nlonger sides, as shares of the image: {}", ranges.collect::<Vec<_>>().join(", "))?;
        let per_object = self.points as f64 / self.objects.max(1) as f64;
        match self.kind {
            LabelKind::Boxes | LabelKind::Corners => {}
            LabelKind::Outlines => write!(
                out,
                "\noutlines of {per_object:.1} points on average; {} cross themselves (filled by the even-odd rule)",
                self.crossing
            )?,
            LabelKind::Keypoints => write!(
                out,
                "\n{per_object:.1} known keypoints per object; {} are unknown, {} are hidden",
                self.unseen[0], self.unseen[1]
            )?,
        }
        if self.dropped > 0 {
            write!(out, "\n{} labels are left out; octant data verify lists them", self.dropped)?;
        }
        Ok(())
    }
}
