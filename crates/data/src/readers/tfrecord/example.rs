//! `tf.train.Example`: named lists of bytes, floats or integers, as protocol buffers.

use message::Kind;
use prost::Message;
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

/// The messages of `example.proto`. A list of numbers may come packed or one by one.
mod message {
    use std::collections::BTreeMap;

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Example {
        #[prost(message, optional, tag = "1")]
        pub features: Option<Features>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Features {
        #[prost(btree_map = "string, message", tag = "1")]
        pub feature: BTreeMap<String, Feature>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Feature {
        #[prost(oneof = "Kind", tags = "1, 2, 3")]
        pub kind: Option<Kind>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Kind {
        #[prost(message, tag = "1")]
        Bytes(BytesList),
        #[prost(message, tag = "2")]
        Floats(FloatList),
        #[prost(message, tag = "3")]
        Ints(Int64List),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct BytesList {
        #[prost(bytes = "vec", repeated, tag = "1")]
        pub value: Vec<Vec<u8>>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct FloatList {
        #[prost(float, repeated, tag = "1")]
        pub value: Vec<f32>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Int64List {
        #[prost(int64, repeated, tag = "1")]
        pub value: Vec<i64>,
    }
}

impl Example {
    /// Reads a record.
    pub fn parse(record: &[u8]) -> Result<Example, String> {
        let example = message::Example::decode(record).map_err(|error| error.to_string())?;
        let feature = |feature: message::Feature| match feature.kind {
            Some(Kind::Bytes(list)) => Feature::Bytes(list.value),
            Some(Kind::Floats(list)) => Feature::Floats(list.value),
            Some(Kind::Ints(list)) => Feature::Ints(list.value),
            None => Feature::Bytes(Vec::new()),
        };
        let features = example.features.unwrap_or_default().feature;
        Ok(Example { features: features.into_iter().map(|(name, value)| (name, feature(value))).collect() })
    }

    /// Writes a record.
    pub fn to_record(&self) -> Vec<u8> {
        let feature = |feature: &Feature| {
            let kind = match feature {
                Feature::Bytes(value) => Kind::Bytes(message::BytesList { value: value.clone() }),
                Feature::Floats(value) => Kind::Floats(message::FloatList { value: value.clone() }),
                Feature::Ints(value) => Kind::Ints(message::Int64List { value: value.clone() }),
            };
            message::Feature { kind: Some(kind) }
        };
        let feature = self.features.iter().map(|(name, value)| (name.clone(), feature(value))).collect();
        message::Example { features: Some(message::Features { feature }) }.encode_to_vec()
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

/// The sum as records store it: rotated and shifted, so that sums of data that contain sums stay useful.
pub(super) fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
