//! The size that an image's file announces, without decoding it.

use super::{DecodeOptions, ImageFileFormat, decode};
use crate::DataError;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Height and width as the file's header says, before any orientation is applied. Formats other than PNG and JPEG are
/// decoded.
pub fn announced_size(path: impl AsRef<Path>) -> Result<(usize, usize), DataError> {
    let path = path.as_ref();
    let mut file = BufReader::new(File::open(path).map_err(|error| DataError::io(path, error))?);
    let mut start = [0; 24];
    let known = match file.read_exact(&mut start) {
        Ok(()) => of_header(&mut file, &start).map_err(|error| DataError::io(path, error))?,
        Err(_) => None,
    };
    if let Some(size) = known {
        return Ok(size);
    }
    let bytes = std::fs::read(path).map_err(|error| DataError::io(path, error))?;
    let image = decode(&bytes, &DecodeOptions::default()).map_err(|problem| DataError::malformed(path, problem))?;
    let [height, width, _] = image.dims();
    Ok((height, width))
}

fn of_header(file: &mut (impl Read + Seek), start: &[u8; 24]) -> std::io::Result<Option<(usize, usize)>> {
    match ImageFileFormat::detect(start) {
        Some(ImageFileFormat::Png) => {
            let number =
                |at: usize| u32::from_be_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]) as usize;
            Ok(Some((number(20), number(16))))
        }
        Some(ImageFileFormat::Jpeg) => of_jpeg(file),
        Some(ImageFileFormat::Bmp | ImageFileFormat::WebP | ImageFileFormat::Tiff | ImageFileFormat::Gif) | None => {
            Ok(None)
        }
    }
}

/// Walks from marker to marker up to the one that begins a frame.
fn of_jpeg(file: &mut (impl Read + Seek)) -> std::io::Result<Option<(usize, usize)>> {
    file.seek(SeekFrom::Start(2))?;
    loop {
        let mut head = [0; 4];
        if file.read_exact(&mut head).is_err() || head[0] != 0xff {
            return Ok(None);
        }
        let length = u64::from(u16::from_be_bytes([head[2], head[3]]));
        let begins_frame = (0xc0..=0xcf).contains(&head[1]) && ![0xc4, 0xc8, 0xcc].contains(&head[1]);
        if begins_frame {
            let mut frame = [0; 5];
            file.read_exact(&mut frame)?;
            let number = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
            return Ok(Some((number(1), number(3))));
        }
        file.seek(SeekFrom::Current(length as i64 - 2))?;
    }
}
