//! Protocol-buffer fields, read from memory or from a file piece by piece.

use crate::window::Window;

/// Where bytes are read from, by offset.
pub(crate) trait Source {
    /// These bytes; `None` where they end before, or cannot be read.
    fn at(&mut self, offset: u64, length: usize) -> Option<&[u8]>;
}

/// Bytes in memory, the first of which has the offset `base`.
pub(crate) struct Slice<'a> {
    pub base: u64,
    pub bytes: &'a [u8],
}

impl Source for Slice<'_> {
    #[inline]
    fn at(&mut self, offset: u64, length: usize) -> Option<&[u8]> {
        let inside = offset.checked_sub(self.base)? as usize;
        self.bytes.get(inside..inside.checked_add(length)?)
    }
}

impl Source for Window {
    fn at(&mut self, offset: u64, length: usize) -> Option<&[u8]> {
        Window::at(self, offset, length).ok().flatten()
    }
}

/// Where a message, or the content of a field, lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The offset of its first byte.
    pub start: u64,
    /// The offset behind its last byte.
    pub end: u64,
}

impl Span {
    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// True when it has none.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// The content of a field.
pub(crate) enum Content {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Span),
}

/// The fields of a message, one after the other.
pub(crate) struct Fields {
    at: u64,
    end: u64,
}

impl Fields {
    pub fn of(span: Span) -> Fields {
        Fields { at: span.start, end: span.end }
    }

    /// Where the next field begins.
    pub fn offset(&self) -> u64 {
        self.at
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.end
    }

    /// The next field's number and content; `Some(None)` when the message is malformed, `None` at its end.
    #[inline]
    pub fn next(&mut self, source: &mut impl Source) -> Option<Option<(u32, Content)>> {
        if self.is_at_end() {
            return None;
        }
        let field = self.field(source);
        if field.is_none() {
            self.at = self.end;
        }
        Some(field)
    }

    #[inline]
    fn field(&mut self, source: &mut impl Source) -> Option<(u32, Content)> {
        let key = self.varint(source)?;
        let content = match key & 7 {
            0 => Content::Varint(self.varint(source)?),
            1 => Content::Fixed64(u64::from_le_bytes(*self.take(source, 8)?.first_chunk()?)),
            2 => {
                let length = self.varint(source)?;
                let end = self.at.checked_add(length).filter(|&end| end <= self.end)?;
                let span = Span { start: self.at, end };
                self.at = end;
                Content::Bytes(span)
            }
            5 => Content::Fixed32(u32::from_le_bytes(*self.take(source, 4)?.first_chunk()?)),
            _ => return None,
        };
        Some((u32::try_from(key >> 3).ok()?, content))
    }

    #[inline]
    fn take<'s>(&mut self, source: &'s mut impl Source, length: usize) -> Option<&'s [u8]> {
        let at = self.at;
        self.at = at.checked_add(length as u64).filter(|&end| end <= self.end)?;
        source.at(at, length)
    }

    /// A number in groups of seven bits, the lowest first.
    #[inline]
    pub fn varint(&mut self, source: &mut impl Source) -> Option<u64> {
        let most = (self.end - self.at).min(10) as usize;
        let bytes = source.at(self.at, most)?;
        let mut value = 0u64;
        for (position, &byte) in bytes.iter().enumerate() {
            value |= ((byte & 0x7f) as u64) << (7 * position);
            if byte < 0x80 {
                self.at += position as u64 + 1;
                return Some(value);
            }
        }
        None
    }
}

/// The bytes of a span, if it is not longer than `limit`.
pub(crate) fn bytes(source: &mut impl Source, span: Span, limit: u64) -> Option<&[u8]> {
    (span.len() <= limit).then(|| source.at(span.start, span.len() as usize)).flatten()
}
