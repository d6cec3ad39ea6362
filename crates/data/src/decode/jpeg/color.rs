//! Planes of luma and chroma to rows of RGB, as libjpeg does it: chroma is interpolated, fractions have 16 bits.

use super::header::Header;
use super::scan::Plane;
use octant_imaging::lanes::pack;
use octant_imaging::vectorized;

/// The pixels of an image, row by row.
pub(super) fn to_rgb(header: &Header, [luma, blue, red]: &[Plane; 3]) -> Vec<u8> {
    let [wide, tall] = header.components[0].sampling;
    let (height, width) = (header.height, header.width);
    let sampled =
        Sampled { height: height.div_ceil(tall), width: width.div_ceil(wide), wide: wide == 2, tall: tall == 2 };
    let mut pixels = Vec::with_capacity(height * width * 3);
    let mut line = vec![0; 3 * width];
    let mut chroma = [vec![0; 2 * width + 2], vec![0; 2 * width + 2]];
    let mut sums = vec![0; width + 2];
    let mut lanes = vec![[0; 4]; width];
    for row in 0..height {
        for (plane, output) in [blue, red].into_iter().zip(&mut chroma) {
            sampled.row(plane, row, &mut sums, output);
        }
        let luma = &luma.values[row * luma.stride..][..width];
        convert(luma, &chroma[0][..width], &chroma[1][..width], &mut lanes);
        pack(&lanes, &mut line);
        pixels.extend_from_slice(&line);
    }
    pixels
}

/// How chroma was sampled: the size of its planes, and along which axes it is half as fine.
struct Sampled {
    height: usize,
    width: usize,
    wide: bool,
    tall: bool,
}

impl Sampled {
    /// A row as wide as luma's, interpolated from a quarter of the neighbors and three quarters of the nearest.
    fn row(&self, plane: &Plane, row: usize, sums: &mut [u16], output: &mut [u8]) {
        let line = |row: usize| &plane.values[row * plane.stride..][..self.width];
        if !self.wide {
            output[..self.width].copy_from_slice(line(row));
            return;
        }
        let sums = &mut sums[..self.width];
        // Without interpolation down the columns, fractions have two bits less and other halves are rounded up.
        if self.tall {
            let near = row / 2;
            let far = if row.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(self.height - 1) };
            add_rows(line(near), line(far), sums);
            widen(sums, output, 4, [8, 7]);
        } else {
            sums.iter_mut().zip(line(row)).for_each(|(sum, &value)| *sum = u16::from(value));
            widen(sums, output, 2, [1, 2]);
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
