//! What the labels of a data set of boxes are like, before anything is learned from them.

use super::DetectionSet;
use crate::Dataset;
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
}

impl BoxSurvey {
    /// The upper bounds of [`BoxSurvey::sizes`].
    pub const SIZES: [f64; 5] = [0.01, 0.03, 0.1, 0.3, 1.0];

    /// Adds another part.
    pub fn add(&mut self, other: &BoxSurvey) {
        self.images += other.images;
        self.empty += other.empty;
        self.objects += other.objects;
        self.most = self.most.max(other.most);
        self.dropped += other.dropped;
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
    let mut result = BoxSurvey { images, most, dropped, ..BoxSurvey::default() };
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
            "{} boxes, {mean:.1} per image, {} at most; {} images have none",
            self.objects, self.most, self.empty
        )?;
        let mut from = 0.0;
        let ranges = BoxSurvey::SIZES.iter().zip(self.sizes).map(|(&to, count)| {
            let range = format!("{count} of {from:.0}–{:.0} %", to * 100.0);
            from = to * 100.0;
            range
        });
        write!(out, "\nlonger sides, as shares of the image: {}", ranges.collect::<Vec<_>>().join(", "))?;
        if self.dropped > 0 {
            write!(out, "\n{} labels are left out; octant data verify lists them", self.dropped)?;
        }
        Ok(())
    }
}
