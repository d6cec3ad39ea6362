//! Planes of components to rows of pixels, to the bit as libjpeg does it: chroma is interpolated, fractions have 16 bits.

use super::header::{Colors, Frame};
use super::region::Region;
use super::scan::Plane;
use octant_imaging::geometry::PixelWindow;
use octant_imaging::lanes::pack;
use octant_imaging::vectorized;
use std::ops::Range;

/// The pixels of a region, row by row.
pub(super) fn to_rgb(frame: &Frame, colors: Colors, planes: &[Plane; 3], region: &Region) -> Vec<u8> {
    let PixelWindow { top, left, height, width } = region.window;
    let mut pixels = Vec::with_capacity(height * width * 3);
    let mut line = vec![0; 3 * width];
    let sampled = (0..frame.components.len()).map(|number| Sampled::new(frame, number, region));
    let mut sampled: Vec<Sampled> = sampled.collect();
    let mut lanes = vec![[0; 4]; width];
    let inside = left - region.left()..left - region.left() + width;
    for row in top..top + height {
        let mut rows = sampled.iter_mut().zip(planes).map(|(sampled, plane)| &sampled.row(plane, row)[inside.clone()]);
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

/// The pixels of a region of an image of one component.
pub(super) fn to_gray(plane: &Plane, region: &Region) -> Vec<u8> {
    let PixelWindow { top, left, height, width } = region.window;
    let rows = plane.values.chunks_exact(plane.stride).skip(top).take(height);
    rows.flat_map(|row| &row[left..left + width]).copied().collect()
}

/// How a component was sampled in the columns of a region, with memory for its rows.
struct Sampled {
    height: usize,
    /// The component's columns in the region.
    columns: Range<usize>,
    /// Pixels of the image per pixel, across and down.
    coarse: [usize; 2],
    /// Whether the component is wide enough for interpolation across.
    is_wide: bool,
    sums: Vec<u16>,
    output: Vec<u8>,
}

impl Sampled {
    fn new(frame: &Frame, number: usize, region: &Region) -> Sampled {
        let component = &frame.components[number];
        let [width, height] = frame.pixels_of(component);
        let coarse = [0, 1].map(|axis| frame.finest[axis] / component.sampling[axis]);
        let [blocks, _] = region.blocks(component);
        let columns = 8 * blocks.start..(8 * blocks.end).min(width);
        let (sums, output) = (vec![0; columns.len()], vec![0; columns.len() * coarse[0]]);
        Sampled { height, columns, coarse, is_wide: width > 2, sums, output }
    }

    /// A row as wide as the region or a little wider. Where a component is half as fine, it is interpolated from a quarter of
    /// the neighbors and three quarters of the nearest; otherwise, and in images too narrow for that, pixels are repeated.
    /// Neighbors beyond the region's sides are missing, which its margin allows for.
    fn row<'a>(&'a mut self, plane: &'a Plane, row: usize) -> &'a [u8] {
        let line = |row: usize| &plane.values[row * plane.stride..][self.columns.clone()];
        let near = row / self.coarse[1];
        let far = if row.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(self.height - 1) };
        match self.coarse {
            [1, 1] => return line(row),
            [1, 2] => blend_rows(line(near), line(far), 1 + row as u16 % 2, &mut self.output),
            // Without interpolation down the columns, fractions have two bits less and other halves are rounded up.
            [2, 1] if self.is_wide => {
                self.sums.iter_mut().zip(line(row)).for_each(|(sum, &value)| *sum = u16::from(value));
                widen(&self.sums, &mut self.output, 2, [1, 2]);
            }
            [2, 2] if self.is_wide => {
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
