//! Bounds of the arguments of steps.

/// The longest side of an image, as in files.
pub(super) const MOST_PIXELS: f64 = 65_535.0;
/// The lower bound of numbers that must be above 0.
pub(super) const ABOVE_ZERO: f64 = f64::MIN_POSITIVE;

/// A single number within bounds, both included.
pub(super) fn within(name: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let range = match low == ABOVE_ZERO {
        true => format!("be above 0 and at most {high}"),
        false => format!("lie within {low} and {high}"),
    };
    Err(format!("`{name}` must {range}, not {value}"))
}

/// A side of an image.
pub(super) fn side(name: &str, value: usize) -> Result<(), String> {
    within(name, value as f64, 1.0, MOST_PIXELS)
}

pub(super) fn size(name: &str, (height, width): (usize, usize)) -> Result<(), String> {
    side(name, height).and_then(|()| side(name, width))
}

pub(super) fn chance(p: f32) -> Result<(), String> {
    within("p", p.into(), 0.0, 1.0)
}

/// Two numbers that a third one is drawn between.
pub(super) fn span(name: &str, (from, to): (f32, f32), low: f64, high: f64) -> Result<(), String> {
    within(name, from.into(), low, high)?;
    within(name, to.into(), low, high)?;
    match from <= to {
        true => Ok(()),
        false => Err(format!("`{name}` must be the smaller number and then the larger one, not [{from}, {to}]")),
    }
}

/// A share of an area and a ratio of sides, as crops and erasings draw them.
pub(super) fn area(scale: (f32, f32), ratio: (f32, f32)) -> Result<(), String> {
    span("scale", scale, ABOVE_ZERO, 1.0)?;
    span("ratio", ratio, ABOVE_ZERO, 100.0)
}

/// The share of a crop that one class may have. All of it would be no limit.
pub(super) fn class_share(share: Option<f32>) -> Result<(), String> {
    share.map_or(Ok(()), |share| within("max_class_share", share.into(), ABOVE_ZERO, 0.99))
}
