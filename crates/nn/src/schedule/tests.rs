//! Figures from PyTorch 2.15's schedulers, timm 1.0's `CosineLRScheduler`, and the log of the source document.

use super::*;

fn assert_close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() <= 1e-9 * expected.abs().max(1e-12), "{actual} is not {expected}");
}

/// The log of a fine-tuning run of 100 epochs shows the rate with three digits.
#[test]
fn the_documents_cosine_gives_its_logged_rates() {
    let schedule = Schedule::WarmupCosine { max: 0.01, min: 0.0005, cycle: 101, warmup: 5, stretch: 1.0, decay: 1.0 };
    assert_eq!(format!("{:.5}", schedule.rate(73)), "0.00236");
    assert_eq!(format!("{:.5}", schedule.rate(99)), "0.00051");
    assert_eq!(format!("{:.6}", schedule.rate(100)), "0.000503");
    assert_eq!(schedule.rate(0), 0.0005);
    assert_close(schedule.rate(5), 0.01);
    let burn_in = Schedule::WarmupCosine { max: 0.1, min: 0.0005, cycle: 10, warmup: 0, stretch: 1.0, decay: 1.0 };
    assert_eq!(burn_in.rate(0), 0.1);
    assert_eq!(burn_in.rate(10), 0.1, "a new cycle begins");
}

#[test]
fn restarts_stretch_and_decay() {
    let schedule = Schedule::WarmupCosine { max: 1.0, min: 0.0, cycle: 10, warmup: 2, stretch: 2.0, decay: 0.5 };
    assert_close(schedule.rate(12), 0.5);
    // The second cycle is (10 - 2) · 2 + 2 = 18 long.
    assert_close(schedule.rate(10 + 2 + 8), 0.25);
    assert_close(schedule.rate(28 + 2), 0.25);
}

#[test]
fn steps_and_milestones() {
    let step = Schedule::Step { rate: 0.1, every: 30, factor: 0.1 };
    assert_close(step.rate(29), 0.1);
    assert_close(step.rate(60), 0.001);
    let milestones = Schedule::MultiStep { rate: 0.1, milestones: vec![10, 20], factor: 0.5 };
    assert_close(milestones.rate(9), 0.1);
    assert_close(milestones.rate(10), 0.05);
    assert_close(milestones.rate(25), 0.025);
}

#[test]
fn polynomial_and_cosine_end_where_they_should() {
    let polynomial = Schedule::Polynomial { rate: 0.1, total: 10, power: 2.0 };
    assert_close(polynomial.rate(5), 0.025);
    assert_eq!(polynomial.rate(12), 0.0);
    let cosine = Schedule::Cosine { rate: 0.1, min: 0.01, total: 10 };
    assert_close(cosine.rate(5), 0.055);
    assert_close(cosine.rate(20), 0.01);
}

#[test]
fn a_plateau_reduces_after_its_patience() {
    let mut plateau = Plateau::new(1e-3, 0.1, 2, 1e-9);
    let rates: Vec<f64> = [1.0, 0.9, 0.9, 0.9, 0.9, 0.9].map(|metric| plateau.observe(metric)).to_vec();
    assert_eq!(rates[..4], [1e-3; 4]);
    assert_close(rates[4], 1e-4);
    assert_close(rates[5], 1e-4);
}

#[test]
fn scaling_multiplies_every_rate() {
    let schedule = Schedule::Cosine { rate: 0.1, min: 0.01, total: 10 };
    let scaled = schedule.scaled(LinearScaling::new(16, 64).factor);
    for time in [0, 3, 10] {
        assert_close(scaled.rate(time), 4.0 * schedule.rate(time));
    }
}
