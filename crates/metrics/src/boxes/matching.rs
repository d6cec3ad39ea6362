//! COCO's matching within one image and class: predictions by descending score, each takes the free object it overlaps most.

use super::ClassImage;

/// Overlaps at which a prediction counts: see [`thresholds`](super::coco::thresholds).
pub(super) const THRESHOLDS: usize = 10;

/// The objects and predictions of one class in one image, with all overlaps.
pub(super) struct ImageClass<'a> {
    image: ClassImage<'a>,
    /// How many predictions count.
    most: usize,
    /// Per prediction, the overlap with every object.
    overlaps: Vec<f64>,
}

/// Whether a prediction matched an object, and whether it is ignored: one bit per threshold.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PredictionMatch {
    matched: u16,
    ignored: u16,
}

impl PredictionMatch {
    const ALL: u16 = (1 << THRESHOLDS) - 1;

    /// Whether the prediction counts at a threshold, and is right.
    pub fn is_right(self, threshold: usize) -> bool {
        (self.matched & !self.ignored) >> threshold & 1 == 1
    }

    /// Whether the prediction counts at a threshold, and is wrong.
    pub fn is_wrong(self, threshold: usize) -> bool {
        (self.matched | self.ignored) >> threshold & 1 == 0
    }
}

impl<'a> ImageClass<'a> {
    /// With the `most` highest-scoring predictions.
    pub fn new(image: ClassImage<'a>, most: usize) -> ImageClass<'a> {
        let most = image.found.len().min(most);
        let objects = image.truth.len();
        let overlaps = (0..most * objects).map(|pair| image.overlap(pair / objects, pair % objects)).collect();
        ImageClass { image, most, overlaps }
    }

    /// Matches at every threshold and appends one [`PredictionMatch`] per prediction; returns how many objects should be
    /// found. Objects outside of `sizes` and groups are ignored: predictions that match them do not count.
    pub fn matched(
        &self,
        thresholds: &[f64; THRESHOLDS],
        sizes: [f64; 2],
        matches: &mut Vec<PredictionMatch>,
    ) -> usize {
        let outside = |area: f64| area < sizes[0] || area > sizes[1];
        let unmatched = |prediction: usize| match outside(self.image.area(prediction)) {
            true => PredictionMatch { matched: 0, ignored: PredictionMatch::ALL },
            false => PredictionMatch::default(),
        };
        let first = matches.len();
        let truth = self.image.truth;
        matches.extend((0..self.most).map(unmatched));
        if truth.is_empty() {
            return 0;
        }
        let ignored: Vec<bool> =
            (0..truth.len()).map(|object| self.image.is_ignored(object) || outside(truth[object].area)).collect();
        // Objects that count are tried first.
        let mut order: Vec<usize> = (0..truth.len()).collect();
        order.sort_by_key(|&index| ignored[index]);
        let mut taken = vec![false; truth.len()];
        for (number, &threshold) in thresholds.iter().enumerate() {
            taken.fill(false);
            for (one_match, overlaps) in matches[first..].iter_mut().zip(self.overlaps.chunks(truth.len())) {
                let Some(index) = self.partner(overlaps, &order, &taken, &ignored, threshold) else { continue };
                taken[index] = true;
                one_match.matched |= 1 << number;
                one_match.ignored &= !(1 << number);
                one_match.ignored |= u16::from(ignored[index]) << number;
            }
        }
        ignored.iter().filter(|&&ignored| !ignored).count()
    }

    /// The object that a prediction takes. The last one of equal overlaps wins, as in COCO's loop.
    fn partner(
        &self,
        overlaps: &[f64],
        order: &[usize],
        taken: &[bool],
        ignored: &[bool],
        threshold: f64,
    ) -> Option<usize> {
        let mut least = threshold.min(1.0 - 1e-10);
        let mut best: Option<usize> = None;
        for &index in order {
            if taken[index] && !self.image.truth[index].crowd {
                continue;
            }
            if best.is_some_and(|best| !ignored[best] && ignored[index]) {
                break;
            }
            if overlaps[index] < least {
                continue;
            }
            least = overlaps[index];
            best = Some(index);
        }
        best
    }
}
