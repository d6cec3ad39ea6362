//! The segments of a file: what they say about the image, and the tables that hold for the next scan.

use super::huffman::Huffman;
use std::sync::Arc;

/// Quantization in the order in which coefficients are stored.
pub(super) type Quantization = [u16; 64];

/// A color component of an image.
pub(super) struct Component {
    id: u8,
    /// Blocks per unit, across and down.
    pub sampling: [usize; 2],
    table: usize,
    /// The table that held when its first scan began.
    pub quantization: Option<Quantization>,
}

/// What the start of a frame says.
pub(super) struct Frame {
    pub height: usize,
    pub width: usize,
    pub is_progressive: bool,
    /// One or three.
    pub components: Vec<Component>,
    /// The largest sampling along each axis.
    pub finest: [usize; 2],
}

/// A component in a scan, with its codes of first coefficients and of all others.
pub(super) struct Part {
    pub component: usize,
    pub first: Option<Arc<Huffman>>,
    pub others: Option<Arc<Huffman>>,
}

/// What the start of a scan says.
pub(super) struct Scan {
    pub parts: Vec<Part>,
    /// The first and the last coefficient.
    pub spectrum: [usize; 2],
    /// Bits that were missing before this scan, zero in a first one, and that are missing after it.
    pub missing: [u32; 2],
    /// Units between markers that restart the scan; zero when there are none.
    pub restart: usize,
}

/// What the components are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Colors {
    Gray,
    Rgb,
    /// Luma and two chromas.
    YCbCr,
}

/// What follows next.
pub(super) enum Next {
    Scan(Scan),
    End,
}

/// A file that is read segment by segment.
#[derive(Default)]
pub(super) struct Segments<'a> {
    /// From the next marker on, or the data of the scan that was just announced.
    pub rest: &'a [u8],
    pub frame: Option<Frame>,
    /// What a camera says about the image.
    pub exif: Option<&'a [u8]>,
    quantization: [Option<Quantization>; 4],
    codes: [[Option<Arc<Huffman>>; 4]; 2],
    restart: usize,
    is_jfif: bool,
    adobe: Option<u8>,
}

impl<'a> Segments<'a> {
    pub fn new(bytes: &'a [u8]) -> Option<Segments<'a>> {
        Some(Segments { rest: bytes.strip_prefix(&[0xff, 0xd8])?, ..Segments::default() })
    }

    /// Reads up to the next scan. Nothing for what is not decoded here: other codings, 12 bits, four components, and sampling
    /// that is no whole part of the finest.
    pub fn next(&mut self) -> Option<Next> {
        loop {
            let (&[0xff, marker], rest) = self.rest.split_first_chunk::<2>()? else { return None };
            match marker {
                0xff => {
                    self.rest = &self.rest[1..];
                    continue;
                }
                0xd9 => return Some(Next::End),
                _ => {}
            }
            let length = u16::from_be_bytes(*rest.first_chunk()?) as usize;
            let segment = rest.get(2..length)?;
            self.rest = &rest[length..];
            match marker {
                0xdb => self.read_quantization(segment)?,
                0xc4 => self.read_codes(segment)?,
                0xc0..=0xc2 if self.frame.is_none() => self.frame = Some(read_frame(segment, marker == 0xc2)?),
                0xdd => self.restart = u16::from_be_bytes(*segment.first_chunk()?) as usize,
                0xda => return self.scan(segment).map(Next::Scan),
                0xe0 => self.is_jfif |= segment.starts_with(b"JFIF\0"),
                0xe1 if segment.starts_with(b"Exif\0\0") => self.exif = self.exif.or(Some(segment)),
                0xee if segment.starts_with(b"Adobe") => self.adobe = segment.get(11).copied(),
                0xe1..=0xef | 0xfe => {}
                _ => return None,
            }
        }
    }

    /// As libjpeg decides it.
    pub fn colors(&self) -> Option<Colors> {
        let components = &self.frame.as_ref()?.components;
        let ids: Vec<u8> = components.iter().map(|component| component.id).collect();
        Some(match (&ids[..], self.is_jfif, self.adobe) {
            ([_], ..) => Colors::Gray,
            (_, false, Some(0)) | (b"RGB", false, None) => Colors::Rgb,
            _ => Colors::YCbCr,
        })
    }

    fn read_quantization(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&kind, rest)) = segment.split_first() {
            let (values, rest) = match kind >> 4 {
                0 => (rest.get(..64)?.iter().map(|&value| u16::from(value)).collect::<Vec<u16>>(), &rest[64..]),
                _ => {
                    let pairs = rest.get(..128)?.as_chunks::<2>().0;
                    (pairs.iter().map(|&pair| u16::from_be_bytes(pair)).collect(), &rest[128..])
                }
            };
            *self.quantization.get_mut(kind as usize & 15)? = values.try_into().ok();
            segment = rest;
        }
        Some(())
    }

    fn read_codes(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&kind, rest)) = segment.split_first() {
            let (counts, symbols) = rest.split_first_chunk::<16>()?;
            let count = counts.iter().map(|&count| count as usize).sum();
            let class = kind as usize >> 4;
            let code = Huffman::new(counts, symbols.get(..count)?, class == 1)?;
            *self.codes.get_mut(class)?.get_mut(kind as usize & 15)? = Some(Arc::new(code));
            segment = &symbols[count..];
        }
        Some(())
    }

    fn scan(&mut self, segment: &[u8]) -> Option<Scan> {
        let frame = self.frame.as_mut()?;
        let (&count, rest) = segment.split_first()?;
        let chosen = rest.get(..2 * count as usize)?.as_chunks::<2>().0;
        let &[first, last, missing] = &rest[2 * chosen.len()..] else { return None };
        let part = |&[id, which]: &[u8; 2]| {
            let component = frame.components.iter().position(|component| component.id == id)?;
            let announced = &mut frame.components[component];
            announced.quantization = announced.quantization.or(*self.quantization.get(announced.table)?);
            let code = |class: usize, number: u8| self.codes[class].get(number as usize).cloned().flatten();
            Some(Part { component, first: code(0, which >> 4), others: code(1, which & 15) })
        };
        let parts = chosen.iter().map(part).collect::<Option<Vec<Part>>>()?;
        // Components come in the frame's order, each one once.
        let is_known = !parts.is_empty() && parts.is_sorted_by(|a, b| a.component < b.component) && last < 64;
        let missing = [u32::from(missing >> 4), u32::from(missing & 15)];
        let spectrum = [first as usize, last as usize];
        is_known.then_some(Scan { parts, spectrum, missing, restart: self.restart })
    }
}

fn read_frame(segment: &[u8], is_progressive: bool) -> Option<Frame> {
    let (&[8, h0, h1, w0, w1, count], rest) = segment.split_first_chunk::<6>()? else { return None };
    let [height, width] = [[h0, h1], [w0, w1]].map(|bytes| u16::from_be_bytes(bytes) as usize);
    let component = |&[id, sampling, table]: &[u8; 3]| Component {
        id,
        // Alone, a component is as fine as the finest.
        sampling: if count == 1 { [1, 1] } else { [sampling as usize >> 4, sampling as usize & 15] },
        table: table as usize,
        quantization: None,
    };
    let components: Vec<Component> = rest.as_chunks::<3>().0.iter().map(component).collect();
    let along = |axis: usize| components.iter().map(move |component| component.sampling[axis]);
    let finest = [0, 1].map(|axis| along(axis).max().unwrap_or(0));
    let is_whole = |axis: usize| along(axis).all(|own| (1..=4).contains(&own) && finest[axis].is_multiple_of(own));
    let is_known =
        matches!(components.len(), 1 | 3) && components.len() == count as usize && is_whole(0) && is_whole(1);
    (is_known && height > 0 && width > 0).then_some(Frame { height, width, is_progressive, components, finest })
}
