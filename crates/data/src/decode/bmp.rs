//! BMP: uncompressed images of 8 bits with a palette, 24 and 32 bits.

use super::{DecodeLimits, Decoded, Orientation, image};
use crate::AnyImage;

/// Little-endian numbers at fixed positions.
struct Header<'a>(&'a [u8]);

impl Header<'_> {
    fn u16(&self, position: usize) -> Result<u16, String> {
        let bytes = self.0.get(position..position + 2).ok_or("its BMP header is cut off")?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&self, position: usize) -> Result<u32, String> {
        Ok(self.u16(position)? as u32 | (self.u16(position + 2)? as u32) << 16)
    }
}

pub(super) fn decode(bytes: &[u8], limits: &DecodeLimits) -> Result<Decoded, String> {
    let header = Header(bytes);
    let start = header.u32(10)? as usize;
    let info_size = header.u32(14)? as usize;
    if info_size < 40 {
        return Err(format!("its BMP header of {info_size} bytes is of an old kind that is not read"));
    }
    let width = header.u32(18)? as i32;
    let rows = header.u32(22)? as i32;
    if width <= 0 || rows == 0 {
        return Err("its BMP header has an impossible size".to_string());
    }
    let (height, width) = (rows.unsigned_abs() as usize, width as usize);
    limits.check(height, width)?;
    let (bits, compression) = (header.u16(28)?, header.u32(30)?);
    // 3 says that masks follow, which nearly always are those of plain 32-bit images.
    if !matches!((bits, compression), (8, 0) | (24, 0) | (32, 0 | 3)) {
        return Err(format!("its BMP pixels have {bits} bits and compression {compression}, which is not read"));
    }
    let bytes_per_pixel = bits as usize / 8;
    let stride = (width * bytes_per_pixel).div_ceil(4) * 4;
    let needed = stride.checked_mul(height).and_then(|size| size.checked_add(start));
    if needed.is_none_or(|needed| needed > bytes.len()) {
        return Err("its BMP pixels are cut off".to_string());
    }
    let palette = (bits == 8).then(|| palette(bytes, 14 + info_size, header.u32(46)));
    let palette = palette.transpose()?;
    let mut values = Vec::with_capacity(height * width * 3);
    for row in 0..height {
        // Rows lie bottom up unless the height is negative.
        let row = if rows > 0 { height - 1 - row } else { row };
        let line = &bytes[start + row * stride..][..width * bytes_per_pixel];
        match &palette {
            Some(colors) => line.iter().for_each(|&position| values.extend(colors[position as usize])),
            None => line.chunks_exact(bytes_per_pixel).for_each(|pixel| values.extend([pixel[2], pixel[1], pixel[0]])),
        }
    }
    let is_gray = palette.is_some_and(|colors| colors.iter().all(|[r, g, b]| r == g && g == b));
    let image = match is_gray {
        true => image(height, width, 1, values.into_iter().step_by(3).collect())?,
        false => image(height, width, 3, values)?,
    };
    Ok(Decoded { image: AnyImage::U8(image), orientation: Orientation::default() })
}

fn palette(bytes: &[u8], start: usize, announced: Result<u32, String>) -> Result<Vec<[u8; 3]>, String> {
    let count = match announced? {
        0 => 256,
        count => (count as usize).min(256),
    };
    let entries = bytes.get(start..start + 4 * count).ok_or("its BMP palette is cut off")?;
    let mut colors: Vec<[u8; 3]> = entries.chunks_exact(4).map(|entry| [entry[2], entry[1], entry[0]]).collect();
    colors.resize(256, [0; 3]);
    Ok(colors)
}
