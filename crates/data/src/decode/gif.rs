//! GIF; of animations, the first image.

use super::{DecodeLimits, Decoded, Orientation, image};
use crate::AnyImage;
use gif::{ColorOutput, DecodeOptions, MemoryLimit};
use std::num::NonZeroU64;

pub(super) fn decode(bytes: &[u8], limits: &DecodeLimits) -> Result<Decoded, String> {
    let problem = |error: gif::DecodingError| format!("its GIF data is damaged ({error})");
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::RGBA);
    if let Some(most) = NonZeroU64::new(limits.bytes() as u64) {
        options.set_memory_limit(MemoryLimit::Bytes(most));
    }
    let mut decoder = options.read_info(bytes).map_err(problem)?;
    let (height, width) = (decoder.height() as usize, decoder.width() as usize);
    limits.check(height, width)?;
    let frame = decoder.read_next_frame().map_err(problem)?.ok_or("its GIF data has no image")?;
    let [top, left, rows, columns] = [frame.top, frame.left, frame.height, frame.width].map(usize::from);
    if top + rows > height || left + columns > width {
        return Err("its GIF data is damaged (an image reaches over the edge)".to_string());
    }
    // What the first image leaves uncovered is transparent.
    let mut values = vec![0; height * width * 4];
    for (row, pixels) in frame.buffer.chunks_exact((columns * 4).max(1)).take(rows).enumerate() {
        let start = ((top + row) * width + left) * 4;
        values[start..start + columns * 4].copy_from_slice(pixels);
    }
    let is_opaque = values.as_chunks::<4>().0.iter().all(|pixel| pixel[3] == 255);
    let image = match is_opaque {
        true => {
            image(height, width, 3, values.as_chunks::<4>().0.iter().flat_map(|&[r, g, b, _]| [r, g, b]).collect())?
        }
        false => image(height, width, 4, values)?,
    };
    Ok(Decoded { image: AnyImage::U8(image), orientation: Orientation::default() })
}
