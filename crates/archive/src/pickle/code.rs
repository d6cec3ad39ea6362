//! The bytes of a pickle, taken from the front: fixed-size numbers, counted strings, and lines of text.

use super::PickleError;
use octant_tensor::Bytes;

pub(super) struct Code<'a> {
    input: &'a Bytes,
    position: usize,
}

impl<'a> Code<'a> {
    pub fn new(input: &'a Bytes) -> Code<'a> {
        Code { input, position: 0 }
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn len(&self) -> usize {
        self.input.len()
    }

    pub fn damaged(&self, problem: impl Into<String>) -> PickleError {
        PickleError::Damaged { position: self.position, problem: problem.into() }
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let rest = &self.input[self.position..];
        let Some(array) = rest.first_chunk() else { return Err(self.damaged("it ends in the middle")) };
        let array = *array;
        self.position += N;
        Ok(array)
    }

    pub fn byte(&mut self) -> Result<u8, PickleError> {
        Ok(self.array::<1>()?[0])
    }

    /// `count` bytes, shared with the input: a claim larger than what is left costs nothing.
    pub fn window(&mut self, count: u64) -> Result<Bytes, PickleError> {
        let end = usize::try_from(count).ok().and_then(|count| self.position.checked_add(count));
        let window = end.and_then(|end| self.input.slice(self.position..end));
        let window = window.ok_or_else(|| self.damaged(format!("{count} bytes are announced, fewer are left")))?;
        self.position += window.len();
        Ok(window)
    }

    /// Bytes behind a count of one, four or eight bytes.
    pub fn window8(&mut self) -> Result<Bytes, PickleError> {
        let count = self.byte()?;
        self.window(count.into())
    }

    pub fn window32(&mut self) -> Result<Bytes, PickleError> {
        let count = u32::from_le_bytes(self.array()?);
        self.window(count.into())
    }

    pub fn window64(&mut self) -> Result<Bytes, PickleError> {
        let count = u64::from_le_bytes(self.array()?);
        self.window(count)
    }

    /// The bytes up to the next line feed, without it.
    pub fn line(&mut self) -> Result<&'a [u8], PickleError> {
        let rest = &self.input[self.position..];
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
            return Err(self.damaged("it ends in the middle of a line"));
        };
        self.position += end + 1;
        Ok(&rest[..end])
    }

    pub fn text_line(&mut self) -> Result<&'a str, PickleError> {
        let line = self.line()?;
        std::str::from_utf8(line).map_err(|_| self.damaged("a line is not text"))
    }
}

/// The content of a Python 2 string literal, as protocol 0 writes strings.
pub(super) fn unquoted(literal: &[u8]) -> Option<Vec<u8>> {
    let literal = literal.trim_ascii();
    let (&quote, rest) = literal.split_first()?;
    let (&closing, inside) = rest.split_last()?;
    if quote != closing || !matches!(quote, b'\'' | b'"') {
        return None;
    }
    let mut content = Vec::with_capacity(inside.len());
    let mut bytes = inside.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            content.push(byte);
            continue;
        }
        match bytes.next()? {
            b'n' => content.push(b'\n'),
            b'r' => content.push(b'\r'),
            b't' => content.push(b'\t'),
            b'x' => content.push(hex(&[bytes.next()?, bytes.next()?])? as u8),
            symbol @ (b'\\' | b'\'' | b'"') => content.push(symbol),
            _ => return None,
        }
    }
    Some(content)
}

/// Python's raw-unicode-escape, as protocol 0 writes text: Latin-1 with `\uXXXX` and `\UXXXXXXXX`.
pub(super) fn raw_unicode(line: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let mut position = 0;
    while let Some(&byte) = line.get(position) {
        let digits = match (byte, line.get(position + 1)) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                text.push(byte as char);
                position += 1;
                continue;
            }
        };
        let code = hex(line.get(position + 2..position + 2 + digits)?)?;
        text.push(char::from_u32(code)?);
        position += 2 + digits;
    }
    Some(text)
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |value, &digit| Some(value << 4 | (digit as char).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_literals_lose_their_quotes_and_escapes() {
        assert_eq!(unquoted(br#"'a\x00\n\'\\'"#).unwrap(), b"a\0\n'\\");
        assert_eq!(unquoted(br#""b""#).unwrap(), b"b");
        for broken in [&b""[..], b"'", b"'a\"", b"'\\'", b"'\\x0'", b"'\\q'"] {
            assert_eq!(unquoted(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn raw_unicode_is_latin_1_with_escapes() {
        assert_eq!(raw_unicode(b"\xe9\\u20ac\\U0001f600\\n").unwrap(), "é€😀\\n");
        assert_eq!(raw_unicode(b"\\u12"), None);
        assert_eq!(raw_unicode(b"\\ud800"), None);
    }
}
