//! Just enough of protocol buffers' wire format to write options and to read recordings: varints, doubles, bytes and nested
//! messages.

/// A message that is being written. Fields that have their default value are left out, as the format wants it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;
const FIXED32: u32 = 5;

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

/// A field of a message that is being read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Field<'a> {
    /// An integer or bool.
    Int(u64),
    /// Text, bytes, or a message within the message.
    Bytes(&'a [u8]),
    /// A number of fixed width, which is skipped.
    Fixed,
}

/// The fields of a message with their numbers, in the order in which they lie. Ends early where the bytes are no message.
pub(crate) fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    std::iter::from_fn(move || {
        let tag = read_varint(&mut bytes)?;
        let field = match (tag & 7) as u32 {
            VARINT => Field::Int(read_varint(&mut bytes)?),
            LENGTH_DELIMITED => {
                let length = usize::try_from(read_varint(&mut bytes)?).ok()?;
                Field::Bytes(take(&mut bytes, length)?)
            }
            FIXED64 => take(&mut bytes, 8).map(|_| Field::Fixed)?,
            FIXED32 => take(&mut bytes, 4).map(|_| Field::Fixed)?,
            _ => return None,
        };
        Some((tag >> 3, field))
    })
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for position in 0..10 {
        let [byte, ..] = *take(bytes, 1)? else { return None };
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut inner = Message::default();
        inner.int(300, -5);
        let mut message = Message::default();
        message.int(1, 150).message(2, &inner).chosen_double(3, 0.5);
        let bytes = message.into_bytes();
        let read: Vec<_> = fields(&bytes).collect();
        assert_eq!(read[0], (1, Field::Int(150)));
        let (2, Field::Bytes(nested)) = read[1] else { panic!("{read:?}") };
        assert_eq!(fields(nested).collect::<Vec<_>>(), [(300, Field::Int(-5i64 as u64))]);
        assert_eq!(read[2], (3, Field::Fixed));
    }

    #[test]
    fn bytes_that_are_no_message_end_early() {
        for bytes in [&[0xff; 20][..], &[0x0a, 0x7f, 1], &[0x0b], &[0x09, 1]] {
            assert_eq!(fields(bytes).count(), 0, "{bytes:?}");
        }
    }
}
