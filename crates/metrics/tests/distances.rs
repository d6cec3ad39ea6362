//! Distances between sets of features against clean-fid's.

use octant_metrics::features::{FeatureSet, frechet_distance, kernel_distance};

fn features(rows: usize, width: usize, of: f64) -> FeatureSet {
    let mut set = FeatureSet::new(width);
    for i in 0..rows {
        let value = |j: usize| {
            let (i, j) = (i as f64, j as f64);
            let own = ((i + 1.0) * (j + 1.0) * 0.7371 + of * 0.31).sin();
            (own + 0.2 * of * (j * 1.3).cos() + 0.1 * (i * 0.9 + of).sin()) as f32
        };
        set.observe(&(0..width).map(value).collect::<Vec<f32>>());
    }
    set
}

#[test]
fn distances_equal_those_of_clean_fid() {
    let cases: Vec<serde_json::Value> = serde_json::from_str(include_str!("../golden/distances.json")).unwrap();
    for case in &cases {
        let number = |name: &str| case[name].as_f64().unwrap();
        let width = number("width") as usize;
        let (a, b) =
            (features(number("rows") as usize, width, 0.0), features(number("others") as usize, width, number("of")));
        let fid = frechet_distance(&a, &b);
        // The reference compares as many rows of both.
        let rows = a.len().min(b.len());
        let kid = kernel_distance(&features(rows, width, 0.0), &features(rows, width, number("of")));
        // Sets with fewer rows than numbers have singular covariances, whose root the reference approximates.
        let tolerance = if a.len() < width { 1e-3 } else { 1e-6 };
        assert!((fid - number("fid")).abs() < tolerance * (1.0 + number("fid").abs()), "{fid} {case}");
        assert!((kid - number("kid")).abs() < 1e-9 * (1.0 + number("kid").abs()), "{kid} {case}");
    }
    assert!(cases.len() == 4);
}

#[test]
fn a_set_has_no_distance_to_itself_and_order_does_not_matter() {
    let a = features(700, 12, 0.0);
    assert!(frechet_distance(&a, &a).abs() < 1e-9);
    let mut reversed = FeatureSet::new(2);
    let mut forward = FeatureSet::new(2);
    let rows: Vec<[f32; 2]> = (0..600).map(|i| [(i as f32).sin(), (i as f32 * 0.3).cos()]).collect();
    rows.iter().for_each(|row| forward.observe(row));
    rows.iter().rev().for_each(|row| reversed.observe(row));
    assert!(frechet_distance(&forward, &reversed).abs() < 1e-9);
    assert!(kernel_distance(&FeatureSet::new(2), &forward).is_nan());
}

/// Rows of two classes around other centers, in that order.
fn of_classes(classes: impl Iterator<Item = usize>) -> FeatureSet {
    let mut set = FeatureSet::new(2);
    for (number, class) in classes.enumerate() {
        let spread = (number as f32 * 0.37).sin() * 0.1;
        set.observe(&[class as f32 * 4.0 + spread, 1.0 - spread]);
    }
    set
}

#[test]
fn the_kernel_distance_compared_the_first_class_of_a_sorted_folder_alone() {
    for rows in [104, 24_000] {
        let sorted = of_classes((0..rows).map(|row| row * 2 / rows));
        let mixed = of_classes((0..24).map(|row| row % 2));
        let first = of_classes((0..24).map(|_| 0));
        let (same, other) = (kernel_distance(&mixed, &sorted), kernel_distance(&first, &sorted));
        assert!(same.abs() < 20.0 && other > 100.0, "{rows} rows: {same} and {other}");
    }
}

#[test]
fn the_distance_of_a_set_to_itself_was_below_zero() {
    let sets = (1..40).map(|rows| features(rows + 1, 64, 0.0));
    assert!(sets.map(|set| frechet_distance(&set, &set)).all(|distance| (0.0..1e-6).contains(&distance)));
}
