//! All results of a detection evaluation, computed once.

use super::interpolated::scored;
use super::{BoxConfusion, BoxScores, CocoSummary, Curves, Interpolated, OperatingPoint, SizeRange};
use crate::Metric;

/// What an evaluation of boxes found.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxReport {
    /// By COCO's rules: the figures that are printed.
    pub coco: CocoSummary,
    /// mAP50-95 and mAP50 by Ultralytics' rules, for comparison with what it prints.
    pub interpolated: [f64; 2],
    /// What every threshold on the score would give.
    pub curves: Curves,
    /// Which classes were taken for which, and for background.
    pub confusion: BoxConfusion,
    /// Objects per class.
    pub objects: Vec<usize>,
    /// Objects per range of sizes: small, medium, large.
    pub sizes: [usize; 3],
    /// Images evaluated.
    pub images: usize,
}

impl BoxScores {
    /// All of it.
    pub fn report(&self) -> BoxReport {
        let classes = self.by_class();
        let uncut = self.uncut_by_class();
        let scored = scored(&uncut);
        let interpolated = Interpolated::of(&scored);
        // COCO's ranges share their ends: an object of exactly 32² is scored in two of them, but is one object.
        let [[_, small], [_, medium]] = [SizeRange::Small, SizeRange::Medium].map(SizeRange::areas);
        let objects = self.images.iter().flat_map(|(truth, _)| truth).filter(|object| !object.crowd);
        let mut sizes = [0; 3];
        objects.for_each(|object| sizes[usize::from(object.area >= small) + usize::from(object.area >= medium)] += 1);
        BoxReport {
            coco: CocoSummary::of(&classes, self.limits),
            interpolated: [interpolated.map50_95(), interpolated.map50()],
            curves: Curves::of(&scored),
            confusion: self.confusion(),
            objects: self.objects(),
            sizes,
            images: self.images(),
        }
    }
}

impl BoxReport {
    /// The threshold where precision and recall are best together.
    pub fn best(&self) -> Option<OperatingPoint> {
        self.curves.best()
    }

    /// The metrics of a validation; NaN where there is nothing to find.
    pub fn metrics(&self) -> Vec<Metric> {
        let point = self.best();
        let has_objects = self.coco.figures[0] >= 0.0;
        // Without a prediction nothing is precise and nothing is recalled; without an object neither has a meaning.
        let at = |value: Option<f64>| if has_objects { value.unwrap_or(0.0) } else { f64::NAN };
        let defined = |value: f64| if value < 0.0 { f64::NAN } else { value };
        let figure = |index: usize| (CocoSummary::NAMES[index].to_string(), defined(self.coco.figures[index]));
        vec![
            figure(0),
            figure(1),
            figure(2),
            ("precision".into(), at(point.map(|point| point.precision))),
            ("recall".into(), at(point.map(|point| point.recall))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GroundTruthBox, PredictedBox, Rectangle};
    use super::*;

    #[test]
    fn a_hand_made_case_has_the_figures_that_follow_from_it() {
        let rectangle = |x: f64, side: f64| Rectangle { x, y: 0.0, width: side, height: side };
        let mut scores = BoxScores::new(2);
        // One small object that is found, one large one that is missed, one false positive.
        let truth = vec![GroundTruthBox::new(0, rectangle(0.0, 20.0)), GroundTruthBox::new(1, rectangle(200.0, 100.0))];
        let prediction = |class, x, score| PredictedBox { class, rectangle: rectangle(x, 20.0), score };
        scores.observe(truth, vec![prediction(0, 0.0, 0.9), prediction(0, 600.0, 0.8)]);
        let report = scores.report();
        assert_eq!((report.objects.clone(), report.sizes, report.images), (vec![1, 1], [1, 0, 1], 1));
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(report.coco.per_class[0], 1.0) && close(report.coco.per_class[1], 0.0));
        assert!(close(report.coco.figures[3], 1.0), "small objects: {:?}", report.coco.figures);
        assert!(close(report.coco.figures[4], -1.0) && close(report.coco.figures[5], 0.0), "medium and large ones");
        assert!((report.interpolated[1] - 0.4975).abs() < 1e-6, "{:?}", report.interpolated);
        let background = 2;
        assert_eq!(report.confusion.count(0, 0), 1);
        assert_eq!((report.confusion.count(background, 1), report.confusion.count(0, background)), (1, 1));
        let metrics = report.metrics();
        assert_eq!(metrics[0].0, "mAP50-95");
        assert!(close(metrics[0].1, 0.5), "{metrics:?}");
    }

    /// 229 of 228: COCO's ranges of sizes share their ends.
    #[test]
    fn objects_by_size_add_up_to_all_objects() {
        let mut scores = BoxScores::new(1);
        let truth = [20.0, 32.0, 50.0, 96.0, 100.0]
            .map(|side| GroundTruthBox::new(0, Rectangle { x: 0.0, y: 0.0, width: side, height: side }));
        scores.observe(truth.to_vec(), Vec::new());
        let report = scores.report();
        assert_eq!((report.sizes, report.objects), ([1, 2, 2], vec![5]));
    }
}
