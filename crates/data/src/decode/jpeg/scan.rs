//! Scans: the order of their blocks, and those that hold a whole image.

use super::bits::Bits;
use super::header::{Component, Frame, Part, Quantization, Scan};
use super::region::Region;
use super::transform::{self, Coefficients};

/// Runs a block of code for every block of a scan, with the position of its part in the scan, its row and its column. Gives what
/// follows the scan; returns when something is missing. A function with a closure would not be compiled for the processor's
/// instructions that its caller has checked.
macro_rules! for_blocks {
    ($order:expr, $data:expr, |$bits:ident, $memory:ident, $number:ident, $place:pat_param| $read:block) => {{
        let order = $order;
        let mut $bits = Bits::new($data);
        let mut $memory = Memory::default();
        for row in 0..order.units[1] {
            for column in 0..order.units[0] {
                order.begin(row * order.units[0] + column, &mut $bits, &mut $memory)?;
                for ($number, &[wide, tall]) in order.sampling.iter().enumerate() {
                    for down in 0..tall {
                        for across in 0..wide {
                            let $place = [row * tall + down, column * wide + across];
                            $read
                        }
                    }
                }
            }
        }
        $bits.rest()
    }};
}
pub(super) use for_blocks;

/// Pixels of a component, whole blocks of them.
#[derive(Default)]
pub(super) struct Plane {
    pub values: Vec<u8>,
    pub stride: usize,
}

/// Row and column of the coefficients in the order in which they are stored.
pub(super) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
];

/// Where a coefficient lies in a block, and what it is multiplied by, in the order in which they are stored.
pub(super) type Places = [(u8, i16); 64];

pub(super) fn places(quantization: &Quantization) -> Places {
    std::array::from_fn(|index| (ZIGZAG[index], quantization[index] as i16))
}

impl Frame {
    /// Units of an interleaved scan, across and down.
    pub fn units(&self) -> [usize; 2] {
        [self.width.div_ceil(8 * self.finest[0]), self.height.div_ceil(8 * self.finest[1])]
    }

    /// Pixels of a component, across and down, without those that fill its last blocks.
    pub fn pixels_of(&self, component: &Component) -> [usize; 2] {
        let along = |axis: usize, pixels: usize| (pixels * component.sampling[axis]).div_ceil(self.finest[axis]);
        [along(0, self.width), along(1, self.height)]
    }

    /// Blocks of a component, across and down, with those that fill its last units.
    pub fn blocks_of(&self, component: &Component) -> [usize; 2] {
        let units = self.units();
        [units[0] * component.sampling[0], units[1] * component.sampling[1]]
    }

    /// Makes the planes as large as the components.
    pub fn allot(&self, planes: &mut [Plane; 3]) {
        for (component, plane) in self.components.iter().zip(planes) {
            let [across, down] = self.blocks_of(component);
            plane.stride = 8 * across;
            plane.values.resize(plane.stride * 8 * down, 0);
        }
    }
}

impl Scan {
    /// Whether the scan is all of a frame that is not progressive.
    pub fn is_whole(&self, frame: &Frame) -> bool {
        !frame.is_progressive && self.parts.len() == frame.components.len()
    }

    /// How the blocks of the scan follow each other.
    pub fn order(&self, frame: &Frame) -> Order {
        let component = |part: &Part| &frame.components[part.component];
        // A component that is alone has units of one block, and none that only fill.
        let (units, sampling): ([usize; 2], Vec<[usize; 2]>) = match &self.parts[..] {
            [part] => (frame.pixels_of(component(part)).map(|pixels| pixels.div_ceil(8)), vec![[1, 1]]),
            parts => (frame.units(), parts.iter().map(|part| component(part).sampling).collect()),
        };
        Order { units, sampling, restart: self.restart }
    }

    /// Fills the planes in a region by a scan that holds the whole image. Nothing when anything but the image's end follows.
    #[inline(always)]
    pub fn read_whole(&self, frame: &Frame, data: &[u8], region: &Region, planes: &mut [Plane; 3]) -> Option<()> {
        let places = |component: &Component| component.quantization.as_ref().map(places);
        let places = frame.components.iter().map(places).collect::<Option<Vec<Places>>>()?;
        frame.allot(planes);
        let wanted: Vec<_> = frame.components.iter().map(|component| region.blocks(component)).collect();
        let mut order = self.order(frame);
        order.units[1] = order.units[1].min(wanted[0][1].end.div_ceil(order.sampling[0][1]));
        let rest = for_blocks!(order, data, |bits, memory, number, [row, column]| {
            let level = &mut memory.levels[number];
            let [columns, rows] = &wanted[number];
            if !rows.contains(&row) || !columns.contains(&column) {
                skip_block(&mut bits, &self.parts[number], level)?;
                continue;
            }
            let mut block: Coefficients = [[0; 8]; 8];
            let count = read_block(&mut bits, &self.parts[number], &places[number], level, &mut block)?;
            let Plane { values, stride } = &mut planes[number];
            let target = &mut values[8 * row * *stride + 8 * column..];
            match count {
                1 => transform::constant(block[0][0], target, *stride),
                _ => transform::inverse(&block, target, *stride),
            }
        });
        (region.ends_early || rest?.starts_with(&[0xff, 0xd9])).then_some(())
    }
}

/// The order of the blocks of a scan.
pub(super) struct Order {
    /// Units across and down.
    pub units: [usize; 2],
    /// Blocks of each part in a unit, across and down.
    pub sampling: Vec<[usize; 2]>,
    pub restart: usize,
}

impl Order {
    /// Before a unit: goes over the marker where the scan restarts. Nothing where it is missing.
    #[inline(always)]
    pub fn begin(&self, unit: usize, bits: &mut Bits, memory: &mut Memory) -> Option<()> {
        if self.restart > 0 && unit > 0 && unit.is_multiple_of(self.restart) {
            bits.restart(unit / self.restart - 1).then_some(())?;
            *memory = Memory::default();
        }
        Some(())
    }
}

/// What is remembered from block to block and forgotten at a restart.
#[derive(Default)]
pub(super) struct Memory {
    /// The last first coefficient of each part.
    pub levels: [i32; 3],
    /// Blocks that follow without anything new.
    pub empty: u32,
}

/// The change of a first coefficient.
#[inline(always)]
pub(super) fn read_first(bits: &mut Bits, part: &Part) -> Option<i32> {
    let first = part.first.as_ref()?.next(bits)?;
    Some(match first.size() {
        0 => 0,
        _ => first.value(),
    })
}

/// Runs code for every coefficient of a block that is stored but the first, with its index and its symbol. Gives the index behind the last
/// one. Two symbols are read after each refill, which is a third of the work of one.
macro_rules! for_symbols {
    ($code:expr, $bits:ident, |$index:ident, $symbol:pat_param| $read:expr) => {{
        let mut $index = 1;
        'block: while $index < 64 {
            $bits.refill();
            for _ in 0..2 {
                let symbol = $code.next_of_refilled(&mut $bits)?;
                $index += symbol.zeros() as usize;
                if symbol.size() > 0 {
                    let $symbol = symbol;
                    $read;
                    $index += 1;
                } else if symbol.zeros() < 16 {
                    break 'block;
                }
                if $index >= 64 {
                    break 'block;
                }
            }
        }
        $index
    }};
}

/// Reads all coefficients of a block. Returns how many were read, up to the last one that is not zero.
#[inline(always)]
pub(super) fn read_block(
    shared: &mut Bits,
    part: &Part,
    places: &Places,
    level: &mut i32,
    block: &mut Coefficients,
) -> Option<usize> {
    let mut bits = *shared;
    *level = level.wrapping_add(read_first(&mut bits, part)?);
    let others = part.others.as_deref()?;
    let coefficients = block.as_flattened_mut();
    coefficients[0] = (*level as i16).wrapping_mul(places[0].1);
    let index = for_symbols!(others, bits, |index, symbol| {
        let (position, factor) = *places.get(index)?;
        coefficients[position as usize & 63] = (symbol.value() as i16).wrapping_mul(factor);
    });
    *shared = bits;
    Some(index)
}

/// Goes over the coefficients of a block and remembers the first one's level.
#[inline(always)]
fn skip_block(shared: &mut Bits, part: &Part, level: &mut i32) -> Option<()> {
    let mut bits = *shared;
    *level = level.wrapping_add(read_first(&mut bits, part)?);
    let others = part.others.as_deref()?;
    for_symbols!(others, bits, |index, _symbol| (index < 64).then_some(())?);
    *shared = bits;
    Some(())
}
