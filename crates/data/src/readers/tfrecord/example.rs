//! `tf.train.Example`: named lists of bytes, floats or integers, as protocol buffers.

use std::collections::BTreeMap;

/// One named list.
#[derive(Debug, Clone, PartialEq)]
pub enum Feature {
    /// Byte strings, for instance encoded images.
    Bytes(Vec<Vec<u8>>),
    /// Floats.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
}

/// Named lists.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Example {
    /// The lists by name.
    pub features: BTreeMap<String, Feature>,
}

/// A field of a message: a number, or bytes that may be a message in turn.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Splits a message into (field number, field).
fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Field<'_>)>, String> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)?),
            1 => Field::Bytes(take(&mut bytes, 8)?),
            2 => {
                let length = varint(&mut bytes)?;
                Field::Bytes(take(&mut bytes, length)?)
            }
            5 => Field::Bytes(take(&mut bytes, 4)?),
            kind => return Err(format!("a field has the unknown kind {kind}")),
        };
        fields.push((key >> 3, field));
    }
    Ok(fields)
}

fn take<'a>(bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8], String> {
    let length = usize::try_from(length).ok().filter(|&length| length <= bytes.len()).ok_or("a field is cut off")?;
    let (field, rest) = bytes.split_at(length);
    *bytes = rest;
    Ok(field)
}

/// Seven bits per byte, the lowest first; the high bit says that more follow.
fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= ((byte & 0x7f) as u64) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number is longer than 64 bits".to_string())
}

impl Example {
    /// Reads a record.
    pub fn parse(record: &[u8]) -> Result<Example, String> {
        let mut example = Example::default();
        for (number, features) in fields(record)? {
            let (1, Field::Bytes(features)) = (number, features) else { continue };
            for (number, entry) in fields(features)? {
                let (1, Field::Bytes(entry)) = (number, entry) else { continue };
                let (name, feature) = parse_entry(entry)?;
                example.features.insert(name, feature);
            }
        }
        Ok(example)
    }

    /// Writes a record.
    pub fn to_record(&self) -> Vec<u8> {
        let mut features = Vec::new();
        for (name, feature) in &self.features {
            let mut entry = Vec::new();
            put_bytes(&mut entry, 1, name.as_bytes());
            put_bytes(&mut entry, 2, &feature_bytes(feature));
            put_bytes(&mut features, 1, &entry);
        }
        let mut record = Vec::new();
        put_bytes(&mut record, 1, &features);
        record
    }

    /// The first byte string of that name.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        match self.features.get(name)? {
            Feature::Bytes(values) => values.first().map(Vec::as_slice),
            Feature::Floats(_) | Feature::Ints(_) => None,
        }
    }

    /// The first integer of that name.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.features.get(name)? {
            Feature::Ints(values) => values.first().copied(),
            Feature::Floats(_) | Feature::Bytes(_) => None,
        }
    }

    /// All integers of that name; none where there are no such.
    pub fn ints(&self, name: &str) -> &[i64] {
        match self.features.get(name) {
            Some(Feature::Ints(values)) => values,
            Some(Feature::Floats(_) | Feature::Bytes(_)) | None => &[],
        }
    }

    /// All numbers of that name, as floats.
    pub fn floats(&self, name: &str) -> Option<Vec<f32>> {
        match self.features.get(name)? {
            Feature::Floats(values) => Some(values.clone()),
            Feature::Ints(values) => Some(values.iter().map(|&value| value as f32).collect()),
            Feature::Bytes(_) => None,
        }
    }
}

fn parse_entry(entry: &[u8]) -> Result<(String, Feature), String> {
    let (mut name, mut feature) = (String::new(), Feature::Bytes(Vec::new()));
    for field in fields(entry)? {
        match field {
            (1, Field::Bytes(bytes)) => name = String::from_utf8_lossy(bytes).into_owned(),
            (2, Field::Bytes(bytes)) => feature = parse_feature(bytes)?,
            _ => {}
        }
    }
    Ok((name, feature))
}

fn parse_feature(bytes: &[u8]) -> Result<Feature, String> {
    let mut feature = Feature::Bytes(Vec::new());
    for (kind, list) in fields(bytes)? {
        let Field::Bytes(list) = list else { continue };
        let values = fields(list)?;
        feature = match kind {
            1 => Feature::Bytes(values.into_iter().filter_map(|(_, value)| as_bytes(value)).collect()),
            2 => Feature::Floats(floats(values)?),
            3 => Feature::Ints(ints(values)?),
            other => return Err(format!("a feature has the unknown kind {other}")),
        };
    }
    Ok(feature)
}

fn as_bytes(field: Field) -> Option<Vec<u8>> {
    match field {
        Field::Bytes(bytes) => Some(bytes.to_vec()),
        Field::Number(_) => None,
    }
}

/// Floats come packed in one field or one by one; both as groups of four bytes.
fn floats(values: Vec<(u64, Field)>) -> Result<Vec<f32>, String> {
    let mut floats = Vec::new();
    for (_, value) in values {
        let Field::Bytes(bytes) = value else { return Err("a float is not four bytes".to_string()) };
        let (words, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err("a list of floats is cut off".to_string());
        }
        floats.extend(words.iter().map(|&word| f32::from_le_bytes(word)));
    }
    Ok(floats)
}

fn ints(values: Vec<(u64, Field)>) -> Result<Vec<i64>, String> {
    let mut ints = Vec::new();
    for (_, value) in values {
        match value {
            Field::Number(number) => ints.push(number as i64),
            Field::Bytes(mut packed) => {
                while !packed.is_empty() {
                    ints.push(varint(&mut packed)? as i64);
                }
            }
        }
    }
    Ok(ints)
}

fn put_varint(target: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        target.push(value as u8 | 0x80);
        value >>= 7;
    }
    target.push(value as u8);
}

fn put_bytes(target: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(target, field << 3 | 2);
    put_varint(target, bytes.len() as u64);
    target.extend_from_slice(bytes);
}

fn feature_bytes(feature: &Feature) -> Vec<u8> {
    let mut list = Vec::new();
    let kind = match feature {
        Feature::Bytes(values) => {
            values.iter().for_each(|value| put_bytes(&mut list, 1, value));
            1
        }
        Feature::Floats(values) => {
            let packed: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            put_bytes(&mut list, 1, &packed);
            2
        }
        Feature::Ints(values) => {
            let mut packed = Vec::new();
            values.iter().for_each(|&value| put_varint(&mut packed, value as u64));
            put_bytes(&mut list, 1, &packed);
            3
        }
    };
    let mut feature = Vec::new();
    put_bytes(&mut feature, kind, &list);
    feature
}

/// The sum as records store it: rotated and shifted, so that sums of data that contain sums stay useful.
pub(super) fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
