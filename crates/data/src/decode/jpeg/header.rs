//! The segments before the first scan of a baseline file.

use super::huffman::Huffman;
use std::sync::Arc;

/// A color component of an image.
pub(super) struct Component {
    /// Blocks per unit, across and down.
    pub sampling: [usize; 2],
    pub quantization: [u16; 64],
    /// The code of first coefficients.
    pub first: Arc<Huffman>,
    /// The code of all others.
    pub others: Arc<Huffman>,
}

/// What a scan needs to know.
pub(super) struct Header<'a> {
    pub height: usize,
    pub width: usize,
    /// Luma and two chromas.
    pub components: Vec<Component>,
    /// Units between markers that restart the scan; zero when there are none.
    pub restart: usize,
    /// Where the data of the scan begins.
    pub data: usize,
    /// What a camera says about the image.
    pub exif: Option<&'a [u8]>,
}

/// A component before the scan says which codes it uses.
struct Announced {
    id: u8,
    sampling: [usize; 2],
    table: usize,
}

impl Header<'_> {
    /// Blocks that belong together, across and down.
    pub fn units(&self) -> [usize; 2] {
        let [wide, tall] = self.components[0].sampling;
        [self.width.div_ceil(8 * wide), self.height.div_ceil(8 * tall)]
    }

    /// Nothing for everything but baseline files of luma and two chromas in one scan, the chromas sampled as often as luma
    /// or half as often.
    pub fn read(bytes: &[u8]) -> Option<Header<'_>> {
        let mut quantization = [None; 4];
        let mut codes: [[Option<Arc<Huffman>>; 4]; 2] = Default::default();
        let (mut size, mut announced, mut restart, mut exif) = ([0; 2], Vec::new(), 0, None);
        let mut position = 2;
        loop {
            let (&[0xff, marker], rest) = bytes.get(position..)?.split_first_chunk::<2>()? else { return None };
            if marker == 0xff {
                position += 1;
                continue;
            }
            let length = u16::from_be_bytes(*rest.first_chunk()?) as usize;
            let segment = rest.get(2..length)?;
            position += 2 + length;
            match marker {
                0xdb => read_quantization(segment, &mut quantization)?,
                0xc4 => read_codes(segment, &mut codes)?,
                0xc0 | 0xc1 if announced.is_empty() => (size, announced) = read_frame(segment)?,
                0xdd => restart = u16::from_be_bytes(*segment.first_chunk()?) as usize,
                // Colors that Adobe's marker says are not luma and chroma.
                0xee if segment.starts_with(b"Adobe") && segment.get(11) != Some(&1) => return None,
                0xda => {
                    let components = read_scan(segment, &announced, &quantization, &codes)?;
                    let [height, width] = size;
                    return Some(Header { height, width, components, restart, data: position, exif });
                }
                0xe1 if segment.starts_with(b"Exif\0\0") => exif = Some(segment),
                0xe0..=0xef | 0xfe => {}
                _ => return None,
            }
        }
    }
}

fn read_quantization(mut segment: &[u8], tables: &mut [Option<[u16; 64]>; 4]) -> Option<()> {
    while let Some((&kind, rest)) = segment.split_first() {
        // Tables of 16 bits belong to files of 12 bits per channel.
        let values = rest.get(..64)?;
        *tables.get_mut(kind as usize)? = Some(std::array::from_fn(|index| u16::from(values[index])));
        segment = &rest[64..];
    }
    Some(())
}

fn read_codes(mut segment: &[u8], codes: &mut [[Option<Arc<Huffman>>; 4]; 2]) -> Option<()> {
    while let Some((&kind, rest)) = segment.split_first() {
        let (counts, symbols) = rest.split_first_chunk::<16>()?;
        let count = counts.iter().map(|&count| count as usize).sum();
        let class = kind as usize >> 4;
        let code = Huffman::new(counts, symbols.get(..count)?, class == 1)?;
        *codes.get_mut(class)?.get_mut(kind as usize & 15)? = Some(Arc::new(code));
        segment = &symbols[count..];
    }
    Some(())
}

fn read_frame(segment: &[u8]) -> Option<([usize; 2], Vec<Announced>)> {
    let (&[8, h0, h1, w0, w1, 3], rest) = segment.split_first_chunk::<6>()? else { return None };
    let size = [u16::from_be_bytes([h0, h1]) as usize, u16::from_be_bytes([w0, w1]) as usize];
    let component = |[id, sampling, table]: [u8; 3]| Announced {
        id,
        sampling: [sampling as usize >> 4, sampling as usize & 15],
        table: table as usize,
    };
    let components: Vec<Announced> = rest.as_chunks::<3>().0.iter().map(|&bytes| component(bytes)).collect();
    let ids: Vec<u8> = components.iter().map(|component| component.id).collect();
    let sampling: Vec<[usize; 2]> = components.iter().map(|component| component.sampling).collect();
    let is_known = matches!(sampling[..], [[1, 1] | [2, 1] | [2, 2], [1, 1], [1, 1]]);
    // Files without a marker of their own are luma and chroma if their components are numbered like this.
    (is_known && ids == [1, 2, 3] && size[0] > 0 && size[1] > 0).then_some((size, components))
}

fn read_scan(
    segment: &[u8],
    announced: &[Announced],
    quantization: &[Option<[u16; 64]>; 4],
    codes: &[[Option<Arc<Huffman>>; 4]; 2],
) -> Option<Vec<Component>> {
    let (&count, rest) = segment.split_first()?;
    if announced.is_empty() || count as usize != announced.len() || rest.get(6..) != Some(&[0, 63, 0]) {
        return None;
    }
    let chosen = announced.iter().zip(rest.as_chunks::<2>().0);
    let component = |(announced, &[id, which]): (&Announced, &[u8; 2])| {
        let code = |class: usize, number: u8| codes[class].get(number as usize)?.clone();
        (id == announced.id).then_some(())?;
        Some(Component {
            sampling: announced.sampling,
            quantization: (*quantization.get(announced.table)?)?,
            first: code(0, which >> 4)?,
            others: code(1, which & 15)?,
        })
    };
    chosen.map(component).collect()
}
