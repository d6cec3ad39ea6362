//! Planes of components to rows of pixels, to the bit as libjpeg does it: chroma is interpolated, fractions have 16 bits.

use super::header::{Colors, Frame};
use super::scan::Plane;
use octant_imaging::lanes::pack;
use octant_imaging::vectorized;

/// The pixels of an image, row by row.
pub(super) fn to_rgb(frame: &Frame, colors: Colors, planes: &[Plane; 3]) -> Vec<u8> {
    let width = frame.width;
    let mut pixels = Vec::with_capacity(frame.height * width * 3);
    let mut line = vec![0; 3 * width];
    let mut sampled: Vec<Sampled> = (0..frame.components.len()).map(|number| Sampled::new(frame, number)).collect();
    let mut lanes = vec![[0; 4]; width];
    for row in 0..frame.height {
        let mut rows = sampled.iter_mut().zip(planes).map(|(sampled, plane)| &sampled.row(plane, row)[..width]);
        let first = rows.next().unwrap_or_default();
        let [second, third] = [(); 2].map(|()| rows.next().unwrap_or(first));
        match colors {
            Colors::YCbCr => convert(first, second, third, &mut lanes),
            Colors::Gray | Colors::Rgb => interleave(first, second, third, &mut lanes),
        }
        pack(&lanes, &mut line);
        pixels.extend_from_slice(&line);
    }
    pixels
}

/// The pixels of an image of one component.
pub(super) fn to_gray(frame: &Frame, plane: &Plane) -> Vec<u8> {
    plane.values.chunks_exact(plane.stride).take(frame.height).flat_map(|row| &row[..frame.width]).copied().collect()
}

/// How a component was sampled, with memory for its rows.
struct Sampled {
    height: usize,
    width: usize,
    /// Pixels of the image per pixel, across and down.
    coarse: [usize; 2],
    sums: Vec<u16>,
    output: Vec<u8>,
}

impl Sampled {
    fn new(frame: &Frame, number: usize) -> Sampled {
        let component = &frame.components[number];
        let [width, height] = frame.pixels_of(component);
        let coarse = [0, 1].map(|axis| frame.finest[axis] / component.sampling[axis]);
        Sampled { height, width, coarse, sums: vec![0; width], output: vec![0; width * coarse[0]] }
    }

    /// A row as wide as the image or a little wider. Where a component is half as fine, it is interpolated from a quarter of
    /// the neighbors and three quarters of the nearest; otherwise, and in images too narrow for that, pixels are repeated.
    fn row<'a>(&'a mut self, plane: &'a Plane, row: usize) -> &'a [u8] {
        let line = |row: usize| &plane.values[row * plane.stride..][..self.width];
        let near = row / self.coarse[1];
        let far = if row.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(self.height - 1) };
        match self.coarse {
            [1, 1] => return line(row),
            [1, 2] => blend_rows(line(near), line(far), 1 + row as u16 % 2, &mut self.output),
            // Without interpolation down the columns, fractions have two bits less and other halves are rounded up.
            [2, 1] if self.width > 2 => {
                self.sums.iter_mut().zip(line(row)).for_each(|(sum, &value)| *sum = u16::from(value));
                widen(&self.sums, &mut self.output, 2, [1, 2]);
            }
            [2, 2] if self.width > 2 => {
                add_rows(line(near), line(far), &mut self.sums);
                widen(&self.sums, &mut self.output, 4, [8, 7]);
            }
            [times, _] => {
                let pixels = self.output.chunks_exact_mut(times).zip(line(near));
                pixels.for_each(|(pixels, &value)| pixels.fill(value));
            }
        }
        &self.output
    }
}

vectorized! {
    fn blend_rows(near: &[u8], far: &[u8], half: u16, output: &mut [u8]) {
        for (output, (&near, &far)) in output.iter_mut().zip(near.iter().zip(far)) {
            *output = ((3 * u16::from(near) + u16::from(far) + half) >> 2) as u8;
        }
    }
}

vectorized! {
    fn interleave(first: &[u8], second: &[u8], third: &[u8], lanes: &mut [[u8; 4]]) {
        for (lane, ((&first, &second), &third)) in lanes.iter_mut().zip(first.iter().zip(second).zip(third)) {
            *lane = [first, second, third, 0];
        }
    }
}

vectorized! {
    fn add_rows(near: &[u8], far: &[u8], sums: &mut [u16]) {
        for (sum, (&near, &far)) in sums.iter_mut().zip(near.iter().zip(far)) {
            *sum = 3 * u16::from(near) + u16::from(far);
        }
    }
}

vectorized! {
    /// Two outputs per sum: three parts of it and one of the neighbor on either side.
    fn widen(sums: &[u16], output: &mut [u8], shift: u32, halves: [u16; 2]) {
        let count = sums.len();
        let pairs = output.as_chunks_mut::<2>().0;
        let pair = |before: u16, own: u16, after: u16| {
            [((3 * own + before + halves[0]) >> shift) as u8, ((3 * own + after + halves[1]) >> shift) as u8]
        };
        if count >= 2 {
            let inner = pairs[1..count - 1].iter_mut();
            for (output, ((&before, &own), &after)) in inner.zip(sums.iter().zip(&sums[1..]).zip(&sums[2..])) {
                *output = pair(before, own, after);
            }
            pairs[count - 1] = pair(sums[count - 2], sums[count - 1], sums[count - 1]);
        }
        pairs[0] = pair(sums[0], sums[0], sums[1.min(count - 1)]);
    }
}

vectorized! {
    fn convert(luma: &[u8], blue: &[u8], red: &[u8], lanes: &mut [[u8; 4]]) {
        const HALF: i32 = 1 << 15;
        for (lane, ((&y, &cb), &cr)) in lanes.iter_mut().zip(luma.iter().zip(blue).zip(red)) {
            let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
            let r = y + ((91_881 * cr + HALF) >> 16);
            let g = y + ((-22_554 * cb - 46_802 * cr + HALF) >> 16);
            let b = y + ((116_130 * cb + HALF) >> 16);
            let [r, g, b] = [r, g, b].map(|level| level.clamp(0, 255) as u32);
            *lane = (r | g << 8 | b << 16).to_le_bytes();
        }
    }
}
