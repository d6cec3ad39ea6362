//! The header of a `.npy` file: magic, version, and a Python dictionary literal.

use super::Fault;
use crate::{DType, Shape};
use std::io::Read;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// NumPy itself stays far below this; the limit rejects a damaged length before memory is allocated.
const LONGEST: usize = 1 << 16;
/// NumPy aligns the elements to this many bytes, so that they can be memory-mapped.
const ALIGNMENT: usize = 64;
/// More axes than NumPy allows.
const MOST_AXES: usize = 64;

pub(super) struct Header {
    pub dtype: DType,
    pub foreign_byte_order: bool,
    pub fortran_order: bool,
    pub dims: Vec<usize>,
}

impl Header {
    /// Reads up to the first element. Also returns the number of bytes read.
    pub fn read(reader: &mut impl Read) -> Result<(Header, u64), Fault> {
        let mut start = [0; 8];
        reader.read_exact(&mut start)?;
        if &start[..6] != MAGIC {
            return Err("it does not begin like a .npy file".to_string().into());
        }
        let (len, prefix) = match start[6] {
            1 => {
                let mut len = [0; 2];
                reader.read_exact(&mut len)?;
                (u16::from_le_bytes(len) as usize, 10)
            }
            2 | 3 => {
                let mut len = [0; 4];
                reader.read_exact(&mut len)?;
                (u32::from_le_bytes(len) as usize, 12)
            }
            other => return Err(format!("its format version is {other}; versions 1 to 3 are known").into()),
        };
        if len > LONGEST {
            return Err(format!("its header claims {len} bytes; at most {LONGEST} make sense").into());
        }
        let mut text = vec![0; len];
        reader.read_exact(&mut text)?;
        let text = std::str::from_utf8(&text).map_err(|_| "its header is not text".to_string())?;
        Ok((parse(text)?, (prefix + len) as u64))
    }
}

/// The header that NumPy would write for a row-major array, or `None` when it has no such element type.
pub(super) fn text(shape: &Shape) -> Option<Vec<u8>> {
    let descr = descr_of(shape.dtype())?;
    let dims: Vec<String> = shape.dims().iter().map(usize::to_string).collect();
    let tuple = if dims.len() == 1 { format!("({},)", dims[0]) } else { format!("({})", dims.join(", ")) };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple}, }}");
    const PREFIX: usize = 10;
    let padding = ALIGNMENT - (PREFIX + text.len() + 1) % ALIGNMENT;
    text.extend(std::iter::repeat_n(' ', padding % ALIGNMENT));
    text.push('\n');
    // A shape of at most a few dozen axes stays far below the 65535 bytes of version 1.
    let len = u16::try_from(text.len()).ok()?;
    Some([MAGIC, &[1, 0][..], &len.to_le_bytes(), text.as_bytes()].concat())
}

fn descr_of(dtype: DType) -> Option<String> {
    let code = match dtype {
        DType::Bool => "b1",
        DType::I8 => "i1",
        DType::I16 => "i2",
        DType::I32 => "i4",
        DType::I64 => "i8",
        DType::U8 => "u1",
        DType::U16 => "u2",
        DType::U32 => "u4",
        DType::U64 => "u8",
        DType::F16 => "f2",
        DType::F32 => "f4",
        DType::F64 => "f8",
        DType::BF16 => return None,
    };
    let order = match dtype.size() {
        1 => '|',
        _ if cfg!(target_endian = "big") => '>',
        _ => '<',
    };
    Some(format!("{order}{code}"))
}

/// The element type that NumPy calls `descr`, and whether its bytes are in the other machine's order.
fn dtype_of(descr: &str) -> Option<(DType, bool)> {
    let native = if cfg!(target_endian = "big") { '>' } else { '<' };
    let order = descr.chars().next().filter(|order| "<>|=".contains(*order))?;
    let code = &descr[1..];
    let dtype = DType::ALL.into_iter().find(|&dtype| descr_of(dtype).is_some_and(|known| &known[1..] == code))?;
    Some((dtype, dtype.size() > 1 && order != native && order != '='))
}

fn parse(text: &str) -> Result<Header, Fault> {
    let mut cursor = Cursor { rest: text };
    let (mut descr, mut fortran_order, mut dims) = (None, None, None);
    cursor.expect('{')?;
    while !cursor.eat('}') {
        let key = cursor.quoted()?;
        cursor.expect(':')?;
        match key {
            "descr" => descr = Some(cursor.quoted()?),
            "fortran_order" => fortran_order = Some(cursor.boolean()?),
            "shape" => dims = Some(cursor.tuple()?),
            other => return Err(format!("its header has an unknown entry {other:?}").into()),
        }
        if !cursor.eat(',') {
            cursor.expect('}')?;
            break;
        }
    }
    let (Some(descr), Some(fortran_order), Some(dims)) = (descr, fortran_order, dims) else {
        return Err("its header lacks the element type, the order or the shape".to_string().into());
    };
    let (dtype, foreign_byte_order) = dtype_of(descr)
        .ok_or_else(|| format!("its element type {descr:?} is not a number type Octant knows; convert it in NumPy"))?;
    Ok(Header { dtype, foreign_byte_order, fortran_order, dims })
}

/// Just enough of Python's literal syntax for a dictionary of a string, a bool and a tuple of integers.
struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn eat(&mut self, symbol: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, symbol: char) -> Result<(), Fault> {
        if self.eat(symbol) { Ok(()) } else { Err(self.surprise(&format!("{symbol:?}"))) }
    }

    fn surprise(&self, wanted: &str) -> Fault {
        let found: String = self.rest.chars().take(20).collect();
        Fault::Format(format!("its header has {found:?} where {wanted} should be"))
    }

    fn quoted(&mut self) -> Result<&'a str, Fault> {
        let quote = ['\'', '"'].into_iter().find(|&quote| self.eat(quote));
        let quote = quote.ok_or_else(|| self.surprise("a plain string (structured arrays are not supported)"))?;
        let end = self.rest.find(quote).ok_or_else(|| self.surprise("a closed string"))?;
        let (inside, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(inside)
    }

    fn boolean(&mut self) -> Result<bool, Fault> {
        self.rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.surprise("True or False"))
    }

    fn tuple(&mut self) -> Result<Vec<usize>, Fault> {
        self.expect('(')?;
        let mut dims = Vec::new();
        while !self.eat(')') {
            if dims.len() == MOST_AXES {
                return Err(format!("its shape has more than {MOST_AXES} axes").into());
            }
            dims.push(self.integer()?);
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(dims)
    }

    fn integer(&mut self) -> Result<usize, Fault> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|symbol: char| !symbol.is_ascii_digit()).unwrap_or(self.rest.len());
        let value = self.rest[..end].parse().map_err(|_| self.surprise("the length of an axis"))?;
        // Python 2 wrote long integers with a trailing L.
        self.rest = self.rest[end..].trim_start_matches('L');
        Ok(value)
    }
}
