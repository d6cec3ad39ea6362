//! Smooth random fields: random grids enlarged and added up.

use crate::SampleRng;
use octant_imaging::resize::{Method, Resizable};
use octant_imaging::{Filter, Image, Semantics};

/// A field of about zero mean and unit deviation. `cells` are the cells of the coarsest grid (rows, columns); each
/// octave has twice as many and `persistence` times the strength.
pub(super) fn field(
    side: usize,
    cells: (usize, usize),
    octaves: usize,
    persistence: f32,
    rng: &mut SampleRng,
) -> Image<f32> {
    let method = Method { filter: Filter::Bicubic, semantics: Semantics::Torchvision, antialias: false };
    let mut sum = Image::filled(side, side, 1, 0.0f32);
    let mut strength = 1.0;
    let mut power = 0.0;
    for octave in 0..octaves {
        let rows = (cells.0 << octave).min(side);
        let columns = (cells.1 << octave).min(side);
        let grid = Image::from_fn(rows, columns, 1, |_, _, _| rng.normal());
        let smooth = grid.resize(side, side, method).expect("torchvision has bicubic");
        sum.values_mut().iter_mut().zip(smooth.values()).for_each(|(sum, value)| *sum += strength * value);
        power += strength * strength;
        strength *= persistence;
    }
    let scale = 1.0 / power.sqrt();
    sum.map(|value| value * scale)
}
