//! Just enough of protocol buffers' wire format to write options: varints, doubles, bytes and nested messages.

/// A message that is being written. Fields that have their default value are left out, as the format wants it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;

impl Message {
    /// A signed or unsigned integer field.
    pub(crate) fn int(&mut self, field: u32, value: i64) -> &mut Self {
        if value != 0 {
            self.tag(field, VARINT);
            // A negative number is its 64-bit two's complement: ten bytes.
            self.varint(value as u64);
        }
        self
    }

    /// A bool that is left out when false.
    pub(crate) fn bool(&mut self, field: u32, value: bool) -> &mut Self {
        self.int(field, value as i64)
    }

    /// A message field, written even when it is empty.
    pub(crate) fn message(&mut self, field: u32, message: &Message) -> &mut Self {
        self.bytes(field, &message.bytes)
    }

    /// A text or bytes field, written even when it is empty.
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.tag(field, LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A list of integers in the packed form.
    pub(crate) fn packed_ints(&mut self, field: u32, values: &[i64]) -> &mut Self {
        let mut packed = Message::default();
        values.iter().for_each(|&value| packed.varint(value as u64));
        self.bytes(field, &packed.bytes)
    }

    /// A member of a `oneof` that is an integer or bool: written even when zero, because being there is what
    /// says which member it is.
    pub(crate) fn chosen_int(&mut self, field: u32, value: i64) -> &mut Self {
        self.tag(field, VARINT);
        self.varint(value as u64);
        self
    }

    /// A member of a `oneof` that is a double.
    pub(crate) fn chosen_double(&mut self, field: u32, value: f64) -> &mut Self {
        self.tag(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// The finished message.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        self.varint((field << 3 | wire_type) as u64);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by the library that reads such messages.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Options {
        #[prost(int64, tag = "1")]
        number: i64,
        #[prost(message, optional, tag = "2")]
        inner: Option<Inner>,
        #[prost(double, tag = "3")]
        share: f64,
        #[prost(int64, repeated, tag = "4")]
        list: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Inner {
        #[prost(int64, tag = "300")]
        number: i64,
    }

    #[test]
    fn what_is_written_is_read() {
        let mut inner = Message::default();
        inner.int(300, -5);
        let mut message = Message::default();
        message.int(1, 150).message(2, &inner).chosen_double(3, 0.5).packed_ints(4, &[1, -2, 300]);
        let read = <Options as prost::Message>::decode(&message.into_bytes()[..]).unwrap();
        let expected = Options { number: 150, inner: Some(Inner { number: -5 }), share: 0.5, list: vec![1, -2, 300] };
        assert_eq!(read, expected);
    }
}
