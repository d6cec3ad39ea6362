//! One interleaved scan to planes of pixels.

use super::bits::Bits;
use super::header::{Component, Header};
use super::transform::{self, Coefficients};

/// Pixels of a component, whole blocks of them.
#[derive(Default)]
pub(super) struct Plane {
    pub values: Vec<u8>,
    pub stride: usize,
}

/// Row and column of the coefficients in the order in which they are stored.
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
];

/// Where a coefficient lies in a block of columns, and what it is multiplied by, in the order in which they are stored.
type Dequantize = [(u8, f32); 64];

fn dequantize(table: &[u16; 64]) -> Dequantize {
    std::array::from_fn(|index| {
        let (row, column) = (ZIGZAG[index] as usize / 8, ZIGZAG[index] as usize % 8);
        let factor = transform::factor(row) * transform::factor(column) * f64::from(table[index]);
        ((8 * column + row) as u8, factor as f32)
    })
}

/// Fills all planes; nothing when the data is damaged.
pub(super) fn read_planes(header: &Header, data: &[u8], planes: &mut [Plane; 3]) -> Option<()> {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has AVX2 and BMI2.
        return unsafe { read_planes_x86(header, data, planes) };
    }
    read_planes_with(header, data, planes)
}

/// Shifts by numbers that are not constant are three times as fast with BMI2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2")]
fn read_planes_x86(header: &Header, data: &[u8], planes: &mut [Plane; 3]) -> Option<()> {
    read_planes_with(header, data, planes)
}

#[inline(always)]
fn read_planes_with(header: &Header, data: &[u8], planes: &mut [Plane; 3]) -> Option<()> {
    let [across, down] = header.units();
    let tables: Vec<Dequantize> =
        header.components.iter().map(|component| dequantize(&component.quantization)).collect();
    for (component, plane) in header.components.iter().zip(&mut *planes) {
        plane.stride = 8 * across * component.sampling[0];
        plane.values.resize(plane.stride * 8 * down * component.sampling[1], 0);
    }
    let mut bits = Bits::new(data);
    let mut levels = vec![0; header.components.len()];
    for unit in 0..across * down {
        if header.restart > 0 && unit > 0 && unit.is_multiple_of(header.restart) {
            bits.restart(unit / header.restart - 1).then_some(())?;
            levels.fill(0);
        }
        let (row, column) = (unit / across, unit % across);
        for (number, component) in header.components.iter().enumerate() {
            let [wide, tall] = component.sampling;
            let Plane { values, stride } = &mut planes[number];
            for block in 0..wide * tall {
                let (y, x) = (8 * (row * tall + block / wide), 8 * (column * wide + block % wide));
                let target = &mut values[y * *stride + x..];
                read_block(&mut bits, component, &tables[number], &mut levels[number], target, *stride)?;
            }
        }
    }
    bits.ends().then_some(())
}

/// Reads one block and writes its pixels.
#[inline(always)]
fn read_block(
    shared: &mut Bits,
    component: &Component,
    table: &Dequantize,
    level: &mut i32,
    target: &mut [u8],
    stride: usize,
) -> Option<()> {
    let mut block: Coefficients = [[0.0; 8]; 8];
    let mut bits = *shared;
    let first = component.first.next(&mut bits)?;
    let change = match first.size() {
        0 => first.value(),
        size => bits.signed(size),
    };
    *level = level.wrapping_add(change);
    let constant = *level as f32 * table[0].1;
    let coefficients = block.as_flattened_mut();
    coefficients[0] = constant;
    let mut index = 1;
    while index < 64 {
        let entry = component.others.next(&mut bits)?;
        index += entry.zeros() as usize;
        let value = match entry.size() {
            0 => entry.value(),
            size => bits.signed(size),
        };
        if value == 0 {
            if entry.zeros() == 16 {
                continue;
            }
            break;
        }
        let (position, factor) = *table.get(index)?;
        coefficients[position as usize & 63] = value as f32 * factor;
        index += 1;
    }
    *shared = bits;
    if index == 1 {
        let level = (constant + 128.5).clamp(0.0, 255.0) as u8;
        (0..8).for_each(|row| target[row * stride..][..8].fill(level));
    } else {
        transform::inverse(&mut block, target, stride);
    }
    Some(())
}
