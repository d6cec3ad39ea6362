//! One sample of a packed data set as bytes: element type, size, target, pixels.

use crate::{AnyImage, Detail, Keypoint, LabelMask, LabeledBox, Ring, Sample, Target};
use octant_imaging::Image;

/// The kinds of targets that are boxes.
const PLAIN_BOXES: u8 = 3;
const WITH_DETAILS: u8 = 7;

/// Bytes of a record before the kind of its target: element type, channels, height and width.
const TARGET_OFFSET: usize = 10;

pub(super) fn record_of(sample: &Sample) -> Vec<u8> {
    let [height, width, channels] = sample.image.dims();
    let kind = match sample.image {
        AnyImage::U8(_) => 0,
        AnyImage::U16(_) => 1,
        AnyImage::F32(_) => 2,
    };
    let mut record = vec![kind, channels as u8];
    record.extend((height as u32).to_le_bytes());
    record.extend((width as u32).to_le_bytes());
    match &sample.target {
        Target::Class(class) => {
            record.push(0);
            record.extend(class.to_le_bytes());
        }
        Target::Mask(mask) => {
            record.push(if mask.is_of_one_class() { 1 } else { 5 });
            record.extend(mask.labels.values());
        }
        Target::Labels(labels) => {
            record.push(6);
            record.extend((labels.len() as u32).to_le_bytes());
            record.extend(labels.iter().map(|&has| u8::from(has)));
        }
        Target::Values(values) => {
            record.push(2);
            record.extend((values.len() as u32).to_le_bytes());
            values.iter().for_each(|value| record.extend(value.to_le_bytes()));
        }
        Target::Boxes(boxes) => {
            let has_details = boxes.iter().any(|object| !object.detail.is_none());
            record.push(if has_details { WITH_DETAILS } else { PLAIN_BOXES });
            record.extend((boxes.len() as u32).to_le_bytes());
            for object in boxes {
                record.extend(object.class.to_le_bytes());
                object.corners().iter().for_each(|v| record.extend(v.to_le_bytes()));
                if has_details {
                    put_detail(&mut record, &object.detail);
                }
            }
        }
        Target::Image(image) => {
            let [height, width, channels] = image.dims();
            record.extend([4, channels as u8]);
            record.extend((height as u32).to_le_bytes());
            record.extend((width as u32).to_le_bytes());
            record.extend(image.values());
        }
    }
    record.extend(sample.image.bytes());
    record
}

fn put_detail(record: &mut Vec<u8>, detail: &Detail) {
    let kind = match detail {
        Detail::None => 0,
        Detail::Outline(_) => 1,
        Detail::Keypoints(_) => 2,
        Detail::Corners(_) => 3,
    };
    record.push(kind);
    let put = |record: &mut Vec<u8>, points: &mut dyn ExactSizeIterator<Item = [f32; 2]>| {
        record.extend((points.len() as u32).to_le_bytes());
        points.flatten().for_each(|v| record.extend(v.to_le_bytes()));
    };
    match detail {
        Detail::None => {}
        Detail::Outline(rings) => {
            record.extend((rings.len() as u32).to_le_bytes());
            for ring in rings {
                record.push(u8::from(ring.is_hole));
                put(record, &mut ring.points.iter().copied());
            }
        }
        Detail::Keypoints(points) => {
            put(record, &mut points.iter().map(|point| point.at));
            record.extend(points.iter().map(|point| point.visibility));
        }
        Detail::Corners(points) => put(record, &mut points.iter().copied()),
    }
}

fn points(record: &mut Cursor) -> Result<Vec<[f32; 2]>, String> {
    let count = record.u32()? as usize;
    let numbers = record.take(count.saturating_mul(8))?.as_chunks::<4>().0;
    let point = |pair: &[[u8; 4]]| [f32::from_le_bytes(pair[0]), f32::from_le_bytes(pair[1])];
    Ok(numbers.chunks_exact(2).map(point).collect())
}

fn detail(record: &mut Cursor) -> Result<Detail, String> {
    Ok(match record.byte()? {
        0 => Detail::None,
        1 => {
            let count = record.u32()?;
            let ring = |record: &mut Cursor| Ok(Ring { is_hole: record.byte()? != 0, points: points(record)? });
            Detail::Outline((0..count).map(|_| ring(record)).collect::<Result<_, String>>()?)
        }
        2 => {
            let points = points(record)?;
            let visibilities = record.take(points.len())?;
            let all = points.into_iter().zip(visibilities);
            Detail::Keypoints(all.map(|(at, &visibility)| Keypoint { at, visibility }).collect())
        }
        3 => Detail::Corners(points(record)?),
        other => return Err(format!("an object has the unknown detail {other}")),
    })
}

/// Reads numbers one after the other, never beyond the end.
pub(super) struct Cursor<'a> {
    pub bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        if count > self.bytes.len() {
            return Err("the packed file is damaged or cut off".to_string());
        }
        let (taken, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("exactly N bytes were taken"))
    }

    pub fn byte(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn f32(&mut self) -> Result<f32, String> {
        Ok(f32::from_le_bytes(self.array()?))
    }
}

pub(super) fn read_record(bytes: &[u8]) -> Result<Sample, String> {
    let mut record = Cursor { bytes };
    let (kind, channels) = (record.byte()?, record.byte()? as usize);
    let (height, width) = (record.u32()? as usize, record.u32()? as usize);
    let pixels = height.checked_mul(width).ok_or("a size in the packed file is damaged")?;
    let target = match record.byte()? {
        0 => Target::Class(record.u32()?),
        1 => Target::Mask(LabelMask::marked(image(height, width, 1, record.take(pixels)?.to_vec())?)),
        5 => Target::Mask(LabelMask::of_classes(image(height, width, 1, record.take(pixels)?.to_vec())?)),
        2 => {
            let count = record.u32()? as usize;
            let values = record.take(count.saturating_mul(4))?;
            Target::Values(values.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect())
        }
        form @ (PLAIN_BOXES | WITH_DETAILS) => {
            let mut boxes = Vec::new();
            for _ in 0..record.u32()? {
                let class = record.u32()?;
                let corners = [record.f32()?, record.f32()?, record.f32()?, record.f32()?];
                let detail = if form == WITH_DETAILS { detail(&mut record)? } else { Detail::None };
                boxes.push(LabeledBox::new(class, corners).with(detail));
            }
            Target::Boxes(boxes)
        }
        4 => {
            let channels = record.byte()? as usize;
            let (height, width) = (record.u32()? as usize, record.u32()? as usize);
            let count = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(channels));
            let values = record.take(count.ok_or("a size in the packed file is damaged")?)?.to_vec();
            Target::Image(image(height, width, channels, values)?)
        }
        6 => {
            let count = record.u32()? as usize;
            Target::Labels(record.take(count)?.iter().map(|&has| has != 0).collect())
        }
        other => return Err(format!("a record has the unknown target kind {other}")),
    };
    let count = pixels.checked_mul(channels).ok_or("a size in the packed file is damaged")?;
    let image = match kind {
        0 => AnyImage::U8(image(height, width, channels, record.take(count)?.to_vec())?),
        1 => {
            let bytes = record.take(count.saturating_mul(2))?;
            let values = bytes.as_chunks::<2>().0.iter().map(|&value| u16::from_le_bytes(value)).collect();
            AnyImage::U16(image(height, width, channels, values)?)
        }
        2 => {
            let bytes = record.take(count.saturating_mul(4))?;
            let values = bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect();
            AnyImage::F32(image(height, width, channels, values)?)
        }
        other => return Err(format!("a record has the unknown element type {other}")),
    };
    Ok(Sample { image, target })
}

fn image<T: octant_imaging::Channel>(
    height: usize,
    width: usize,
    channels: usize,
    values: Vec<T>,
) -> Result<Image<T>, String> {
    Image::new(height, width, channels, values).map_err(|error| error.to_string())
}

/// How many boxes a record has, where they are its target.
pub(super) fn box_count(bytes: &[u8]) -> Option<usize> {
    let mut record = Cursor { bytes };
    record.take(TARGET_OFFSET).ok()?;
    let is_boxes = [PLAIN_BOXES, WITH_DETAILS].contains(&record.byte().ok()?);
    is_boxes.then(|| record.u32().ok()).flatten().map(|count| count as usize)
}
