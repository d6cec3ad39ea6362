//! Images in several scans: coefficients are collected and become pixels after the last one.

use super::bits::Bits;
use super::header::{Frame, Next, Quantization, Scan, Segments};
use super::huffman::Huffman;
use super::region::Region;
use super::scan::{self, Memory, Places, Plane, ZIGZAG, for_blocks};
use super::transform::{self, Coefficients};
use std::ops::Range;

/// The coefficients of a component.
struct Grid {
    blocks: Vec<Coefficients>,
    /// A bit for each coefficient of a block that is not zero, in the order in which they are stored.
    known: Vec<u64>,
    across: usize,
    /// Bits that each coefficient still misses; nothing before its first scan.
    missing: [Option<u32>; 64],
}

impl Grid {
    #[inline(always)]
    fn at(&mut self, [row, column]: [usize; 2]) -> &mut Coefficients {
        &mut self.blocks[row * self.across + column]
    }

    #[inline(always)]
    fn band(&mut self, [row, column]: [usize; 2]) -> Band<'_> {
        let index = row * self.across + column;
        Band { coefficients: self.blocks[index].as_flattened_mut(), known: &mut self.known[index] }
    }
}

/// The coefficients of a block behind the first one.
struct Band<'a> {
    coefficients: &'a mut [i16],
    known: &'a mut u64,
}

impl Band<'_> {
    /// Sets a coefficient, whose place is below 64.
    #[inline(always)]
    fn set(&mut self, index: usize, value: i32) {
        self.coefficients[ZIGZAG[index & 63] as usize & 63] = value as i16;
        *self.known |= 1 << (index & 63);
    }

    /// Adds a bit to those of the coefficients that are not zero.
    #[inline(always)]
    fn refine(&mut self, bits: &mut Bits, mut chosen: u64, missing: u32) {
        while chosen != 0 {
            let value = &mut self.coefficients[ZIGZAG[chosen.trailing_zeros() as usize & 63] as usize & 63];
            if bits.take(1) == 1 {
                *value = value.wrapping_add(value.signum() << missing);
            }
            chosen &= chosen - 1;
        }
    }
}

/// Reads the given scan and all that follow. Nothing when one is damaged or bits are missing after the last.
#[inline(always)]
pub(super) fn read(segments: &mut Segments, mut scan: Scan, region: &Region, planes: &mut [Plane; 3]) -> Option<()> {
    let mut grids = Vec::new();
    for component in &segments.frame.as_ref()?.components {
        let [across, down] = segments.frame.as_ref()?.blocks_of(component);
        let (blocks, known) = (vec![[[0; 8]; 8]; across * down], vec![0; across * down]);
        grids.push(Grid { blocks, known, across, missing: [None; 64] });
    }
    loop {
        segments.rest = read_scan(segments.frame.as_ref()?, &scan, segments.rest, &mut grids)?;
        match segments.next()? {
            Next::Scan(next) => scan = next,
            Next::End => break,
        }
    }
    let frame = segments.frame.as_ref()?;
    frame.allot(planes);
    for ((component, grid), plane) in frame.components.iter().zip(&grids).zip(planes) {
        grid.missing.iter().all(|&missing| missing == Some(0)).then_some(())?;
        to_pixels(grid, region.blocks(component), component.quantization.as_ref()?, plane);
    }
    Some(())
}

#[inline(always)]
fn to_pixels(grid: &Grid, [columns, rows]: [Range<usize>; 2], quantization: &Quantization, plane: &mut Plane) {
    let mut factors: Coefficients = [[0; 8]; 8];
    ZIGZAG
        .iter()
        .zip(quantization)
        .for_each(|(&at, &factor)| factors[at as usize / 8][at as usize % 8] = factor as i16);
    for (row, column) in rows.flat_map(|row| columns.clone().map(move |column| (row, column))) {
        let block = &grid.blocks[row * grid.across + column];
        let target = &mut plane.values[8 * row * plane.stride + 8 * column..];
        let mut product = *block;
        let pairs = product.as_flattened_mut().iter_mut().zip(factors.as_flattened());
        pairs.for_each(|(value, &factor)| *value = value.wrapping_mul(factor));
        match product.as_flattened()[1..].iter().fold(0, |all, &value| all | value) {
            0 => transform::constant(product[0][0], target, plane.stride),
            _ => transform::inverse(&product, target, plane.stride),
        }
    }
}

#[inline(always)]
fn read_scan<'a>(frame: &Frame, scan: &Scan, data: &'a [u8], grids: &mut [Grid]) -> Option<&'a [u8]> {
    let [first, last] = scan.spectrum;
    let [before, after] = scan.missing;
    let is_refined = before > 0;
    let is_known = match (frame.is_progressive, first) {
        (false, _) => (first, last, before, after) == (0, 63, 0, 0),
        (true, 0) => last == 0,
        (true, _) => first <= last && scan.parts.len() == 1,
    };
    (is_known && after < 14 && (!is_refined || before == after + 1)).then_some(())?;
    for part in &scan.parts {
        for missing in &mut grids[part.component].missing[first..=last] {
            // A first scan of a coefficient comes once, the others bit by bit.
            (*missing == is_refined.then_some(before)).then_some(())?;
            *missing = Some(after);
        }
    }
    let unscaled: Places = std::array::from_fn(|index| (ZIGZAG[index], 1));
    let order = scan.order(frame);
    // A loop for each kind of scan: none of them decides anything twice.
    match (frame.is_progressive, first, is_refined) {
        (false, ..) => for_blocks!(order, data, |bits, memory, number, place| {
            let part = &scan.parts[number];
            let block = grids[part.component].at(place);
            scan::read_block(&mut bits, part, &unscaled, &mut memory.levels[number], block)?;
        }),
        (true, 0, false) => for_blocks!(order, data, |bits, memory, number, place| {
            let part = &scan.parts[number];
            let level = &mut memory.levels[number];
            *level = level.wrapping_add(scan::read_first(&mut bits, part)?);
            grids[part.component].at(place)[0][0] = (*level << after) as i16;
        }),
        (true, 0, true) => for_blocks!(order, data, |bits, memory, number, place| {
            grids[scan.parts[number].component].at(place)[0][0] |= (bits.take(1) << after) as i16;
        }),
        (true, _, false) => {
            let [part] = &scan.parts[..] else { return None };
            let (code, grid) = (part.others.as_deref()?, &mut grids[part.component]);
            for_blocks!(order, data, |bits, memory, _part, place| {
                read_band(&mut bits, code, [first, last], after, &mut memory, grid.band(place))?;
            })
        }
        (true, _, true) => {
            let [part] = &scan.parts[..] else { return None };
            let (code, grid) = (part.others.as_deref()?, &mut grids[part.component]);
            for_blocks!(order, data, |bits, memory, _part, place| {
                refine_band(&mut bits, code, [first, last], after, &mut memory, grid.band(place))?;
            })
        }
    }
}

/// The first bits of a range of coefficients.
#[inline(always)]
fn read_band(
    shared: &mut Bits,
    code: &Huffman,
    [first, last]: [usize; 2],
    missing: u32,
    memory: &mut Memory,
    mut band: Band,
) -> Option<()> {
    if memory.empty > 0 {
        memory.empty -= 1;
        return Some(());
    }
    let mut bits = *shared;
    let mut index = first;
    while index <= last {
        let symbol = code.next(&mut bits)?;
        let value = match symbol.size() {
            0 => 0,
            _ => symbol.value(),
        };
        if value == 0 && symbol.zeros() < 16 {
            memory.empty = (1 << symbol.zeros()) - 1 + bits.take(symbol.zeros());
            break;
        }
        index += symbol.zeros() as usize;
        if value != 0 {
            (index < 64).then(|| band.set(index, value << missing))?;
            index += 1;
        }
    }
    *shared = bits;
    Some(())
}

/// One more bit of a range of coefficients: of those that are known, and new ones of which it is the first.
#[inline(always)]
fn refine_band(
    shared: &mut Bits,
    code: &Huffman,
    [first, last]: [usize; 2],
    missing: u32,
    memory: &mut Memory,
    mut band: Band,
) -> Option<()> {
    let mut bits = *shared;
    // A bit for each coefficient that was not reached yet.
    let mut left = (u64::MAX >> (63 - last)) & (u64::MAX << first);
    while left != 0 && memory.empty == 0 {
        let symbol = code.next(&mut bits)?;
        let value = match symbol.size() {
            0 => 0,
            1 => symbol.value(),
            _ => return None,
        };
        let zeros = match (value, symbol.zeros()) {
            (0, 16) => 15,
            (0, zeros) => {
                memory.empty = (1 << zeros) + bits.take(zeros);
                break;
            }
            (_, zeros) => zeros,
        };
        // The next one is the zero that follows that many zeros; known coefficients do not count.
        let mut zero = left & !*band.known;
        (0..zeros).for_each(|_| zero &= zero.wrapping_sub(1));
        let before = (zero & zero.wrapping_neg()).wrapping_sub(1);
        band.refine(&mut bits, left & before & *band.known, missing);
        if value != 0 && zero != 0 {
            band.set(zero.trailing_zeros() as usize, value << missing);
        }
        left &= !(before << 1 | 1);
    }
    if memory.empty > 0 {
        memory.empty -= 1;
        band.refine(&mut bits, left & *band.known, missing);
    }
    *shared = bits;
    Some(())
}
