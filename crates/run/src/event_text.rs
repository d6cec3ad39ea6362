//! Events of a run as text: the lines of a log, and the metrics that are shown where there is room for a few.

use crate::RunEvent;
use octant_train::Metric;

impl RunEvent<'_> {
    /// What the event is worth in a log: nothing, a line or two.
    pub fn log_lines(&self) -> Vec<String> {
        match self {
            RunEvent::Message(text) => vec![text.to_string()],
            RunEvent::Warning(text) => vec![format!("warning: {text}")],
            RunEvent::Started(start) => vec![start.to_string(), start.device.to_string()],
            RunEvent::Phase(phase) => {
                let seconds = phase.compile_time.as_secs_f64();
                vec![format!("{}: the training step is ready after {seconds:.1} s", phase.name)]
            }
            RunEvent::EpochBegins { epoch, epochs, steps, done } => {
                vec![format!("epoch {epoch} of {epochs} begins at step {done} of {steps}")]
            }
            RunEvent::Epoch(report) => {
                let metrics = report.metrics.iter().map(|(name, value)| format!("{name} {value:.6}"));
                let metrics = metrics.collect::<Vec<_>>().join("  ");
                let (epoch, seconds) = (report.epoch, report.times.total.as_secs_f64());
                vec![format!("epoch {epoch}: {metrics}, {seconds:.1} s, {}", report.bottleneck)]
            }
            RunEvent::Checkpoint { step } => vec![format!("checkpoint of step {step}")],
            RunEvent::Ended(outcome) => vec![format!("the run ended: {:?}", outcome.summary.ending)],
            RunEvent::Planned(_)
            | RunEvent::Step(_)
            | RunEvent::Loss { .. }
            | RunEvent::Validated { .. }
            | RunEvent::Recorded { .. } => Vec::new(),
        }
    }
}

/// The `most` metrics of an epoch that matter most, in their own order: the loss of training and of validation, and what the
/// best epoch is chosen by; others where these are missing. The rest is in `metrics.csv`.
pub fn leading_metrics<'a>(metrics: &'a [Metric], best: &str, most: usize) -> Vec<&'a Metric> {
    let own = best.strip_prefix("val_").unwrap_or(best);
    let rank = |name: &str| [best, "loss", "val_loss", own].iter().position(|wanted| *wanted == name).unwrap_or(4);
    let mut order: Vec<usize> =
        (0..metrics.len()).filter(|&index| !metrics[index].1.is_nan() || rank(&metrics[index].0) < 2).collect();
    order.sort_by_key(|&index| rank(&metrics[index].0));
    order.truncate(most);
    order.sort_unstable();
    order.into_iter().map(|index| &metrics[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_line_for_what_happens_rarely() {
        assert_eq!(RunEvent::Warning("slow data").log_lines(), ["warning: slow data"]);
        assert_eq!(RunEvent::Checkpoint { step: 7 }.log_lines(), ["checkpoint of step 7"]);
        let begins = RunEvent::EpochBegins { epoch: 2, epochs: 5, steps: 40, done: 3 };
        assert_eq!(begins.log_lines(), ["epoch 2 of 5 begins at step 3 of 40"]);
        assert!(RunEvent::Loss { step: 1, loss: 0.5 }.log_lines().is_empty());
    }

    fn named(metrics: &[(&str, f64)]) -> Vec<Metric> {
        metrics.iter().map(|(name, value)| (name.to_string(), *value)).collect()
    }

    #[test]
    fn the_metrics_that_matter_are_shown() {
        let names = |metrics: &[Metric], best: &str| {
            leading_metrics(metrics, best, 3).into_iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(" ")
        };
        let all = named(&[
            ("loss", 0.5),
            ("accuracy", 0.8),
            ("f1", 0.7),
            ("val_loss", 0.6),
            ("val_accuracy", 0.7),
            ("val_f1", 0.6),
        ]);
        assert_eq!(names(&all, "val_accuracy"), "loss val_loss val_accuracy");
        assert_eq!(names(&all[..3], "val_accuracy"), "loss accuracy f1", "an epoch without a validation");
        assert_eq!(names(&named(&[("loss_g", 1.0), ("loss_d", 2.0)]), "val_loss"), "loss_g loss_d");
        let diverged = named(&[("loss", f64::NAN), ("accuracy", 0.1), ("val_loss", f64::NAN)]);
        assert_eq!(names(&diverged, "val_accuracy"), "loss accuracy");
    }
}
