use super::*;

const KEY: [u32; 2] = [11, 2024];
const BELL: Distribution = Distribution::Normal { deviation: 1.0 };

fn normals(count: usize) -> Vec<f32> {
    let mut values = vec![0.0; count];
    fill(&mut values, KEY, BELL);
    values
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

#[test]
fn logarithm_and_circle_are_as_good_as_floats_are() {
    let words = (0..200_000u32).map(|i| i.wrapping_mul(2_654_435_761)).chain([0, 1, 2, u32::MAX, 1 << 31]);
    for word in words {
        let part = (word as f64 + 0.5) / 4_294_967_296.0;
        // Words beyond 2²⁴ are rounded to 24 bits; beside 1 that is all there is of the logarithm.
        let error = (log_of_part(word) as f64 - part.ln()).abs();
        assert!(error < 2.5e-7 * part.ln().abs() + 3.1e-8, "ln {part}: off by {error:e}");
        let angle = word as f64 / 4_294_967_296.0 * std::f64::consts::TAU;
        let [cos, sin] = on_circle(word).map(f64::from);
        assert!((cos - angle.cos()).abs() < 1e-7 && (sin - angle.sin()).abs() < 1e-7, "at {angle}: {cos}, {sin}");
    }
}

#[test]
fn moments_are_those_of_a_bell() {
    let values = normals(4_000_000);
    let moment = |power: i32| mean(values.iter().map(|&value| (value as f64).powi(power)));
    // Four deviations of each estimate over this many numbers.
    for (power, expected, slack) in
        [(1, 0.0, 2e-3), (2, 1.0, 2.9e-3), (3, 0.0, 7.8e-3), (4, 3.0, 2e-2), (6, 15.0, 0.21)]
    {
        let found = moment(power);
        assert!((found - expected).abs() < slack, "moment {power} is {found}");
    }
}

#[test]
fn tails_are_as_heavy_as_they_should_be() {
    let values = normals(1 << 24);
    for (limit, share) in [(2.0f32, 4.550_026e-2), (3.0, 2.699_796e-3), (4.0, 6.334_248e-5), (5.0, 5.733_031e-7)] {
        let expected = share * values.len() as f64;
        let found = values.iter().filter(|value| value.abs() > limit).count() as f64;
        assert!((found - expected).abs() < 4.0 * expected.sqrt(), "beyond {limit}: {found}, not about {expected}");
        let above = values.iter().filter(|&&value| value > limit).count() as f64;
        assert!((above - expected / 2.0).abs() < 4.0 * (expected / 2.0).sqrt(), "above {limit}: {above}");
    }
    assert!(values.iter().all(|value| value.abs() < 6.8));
}

/// Kolmogorov and Smirnov: how far the share below a value strays from what it should be, everywhere.
#[test]
fn the_whole_distribution_is_a_bell() {
    let mut values = normals(1_000_000);
    values.sort_by(f32::total_cmp);
    let count = values.len() as f64;
    let below = |value: f32| 0.5 * libm::erfc(-value as f64 / std::f64::consts::SQRT_2);
    let distance = values.iter().enumerate().map(|(rank, &value)| {
        let expected = below(value);
        (expected - rank as f64 / count).abs().max((expected - (rank + 1) as f64 / count).abs())
    });
    // One fair sample in a thousand strays further.
    assert!(distance.fold(0.0, f64::max) < 1.95 / count.sqrt());
}

#[test]
fn numbers_do_not_know_of_each_other() {
    let values = normals(1 << 20);
    let wide: Vec<f64> = values.iter().map(|&value| value as f64).collect();
    // Neighbors, the two of one counter, and the same element of the next block.
    for distance in [1, 2, 16, COUNTERS, 2 * COUNTERS] {
        let pairs = || wide.iter().zip(&wide[distance..]);
        let product = mean(pairs().map(|(a, b)| a * b));
        let squares = mean(pairs().map(|(a, b)| (a * a - 1.0) * (b * b - 1.0)));
        assert!(product.abs() < 4e-3 && squares.abs() < 8e-3, "distance {distance}: {product}, {squares}");
    }
}

#[test]
fn every_processor_draws_the_same_bits() {
    let expected: Vec<u32> = normals(3).iter().map(|value| value.to_bits()).collect();
    assert_eq!(expected, GOLDEN);
    for distribution in [BELL, Distribution::Uniform { bound: 0.3 }] {
        let sampled = |fill: fn(&mut [f32], [u32; 2], Distribution)| {
            let mut values = vec![0.0; 5_000];
            fill(&mut values, KEY, distribution);
            values.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
        };
        let portable = sampled(fill_portable);
        assert_eq!(sampled(fill), portable);
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function requires.
            assert_eq!(sampled(|values, key, distribution| unsafe { fill_avx2(values, key, distribution) }), portable);
        }
    }
}

const GOLDEN: [u32; 3] = [0xBEE0_5CFD, 0x3FC7_053C, 0xBF2D_36A3];

#[test]
fn fewer_numbers_are_the_beginning_of_more() {
    assert_eq!(normals(1_500), normals(5_000)[..1_500]);
}

#[test]
fn paths_hash_as_fnv_1a_says() {
    assert_eq!(path_hash(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(path_hash("a"), 0xaf63_dc4c_8601_ec8c);
}
