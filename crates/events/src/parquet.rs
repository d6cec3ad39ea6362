//! Scalars as a Parquet file, which pandas, polars, DuckDB and Spark open.
//!
//! Only what such a table needs: five required columns, no compression, pages version 1. Names of runs and tags repeat in
//! long runs, so they are dictionary pages with run lengths; numbers are plain. The format's own metadata is Thrift's
//! compact protocol, of which [`Thrift`] writes the few types that occur. A small writer instead of a crate: the `parquet`
//! crate would add more than a megabyte to the binary.

use crate::message::varint;
use std::io::{self, Write};

/// Rows that are kept in memory before they are written as a row group.
const GROUP: usize = 1 << 20;
const MAGIC: &[u8] = b"PAR1";

/// The format's physical types.
const INT64: i64 = 2;
const FLOAT: i64 = 4;
const DOUBLE: i64 = 5;
const BYTE_ARRAY: i64 = 6;
/// Its encodings.
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const RLE_DICTIONARY: i64 = 8;

/// The columns, in the order that they are written in.
const COLUMNS: [(&str, i64); 5] =
    [("run", BYTE_ARRAY), ("tag", BYTE_ARRAY), ("step", INT64), ("wall_time", DOUBLE), ("value", FLOAT)];

/// A Parquet file with the columns run, tag, step, wall_time and value. Nothing is readable before [`finish`].
///
/// [`finish`]: ParquetScalars::finish
pub struct ParquetScalars<W: Write> {
    out: W,
    offset: u64,
    rows: u64,
    groups: Vec<Group>,
    names: [Names; 2],
    steps: Vec<i64>,
    times: Vec<f64>,
    values: Vec<f32>,
}

/// What the footer has about a row group.
struct Group {
    rows: usize,
    bytes: u64,
    chunks: Vec<Chunk>,
}

struct Chunk {
    dictionary: Option<u64>,
    data: u64,
    end: u64,
}

/// A column of few different texts, most of them the same as the one before.
#[derive(Default)]
struct Names {
    different: Vec<String>,
    /// Which text, and how often in a row.
    runs: Vec<(usize, u64)>,
}

impl Names {
    fn push(&mut self, text: &str) {
        if let Some((last, count)) = self.runs.last_mut()
            && self.different[*last] == text
        {
            *count += 1;
            return;
        }
        let index = self.different.iter().position(|known| known == text).unwrap_or_else(|| {
            self.different.push(text.to_string());
            self.different.len() - 1
        });
        self.runs.push((index, 1));
    }

    fn dictionary(&self) -> Vec<u8> {
        let text = |text: &String| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        self.different.iter().flat_map(text).collect()
    }

    /// The width of an index in bits, then runs: their length, and the index in as many bytes as it needs.
    fn indices(&self) -> Vec<u8> {
        let width = (usize::BITS - self.different.len().saturating_sub(1).leading_zeros()).max(1);
        let mut bytes = vec![width as u8];
        for &(index, count) in &self.runs {
            bytes.extend(varint(count << 1));
            bytes.extend(&index.to_le_bytes()[..width.div_ceil(8) as usize]);
        }
        bytes
    }
}

impl<W: Write> ParquetScalars<W> {
    /// Begins a file.
    pub fn new(mut out: W) -> io::Result<ParquetScalars<W>> {
        out.write_all(MAGIC)?;
        Ok(ParquetScalars {
            out,
            offset: MAGIC.len() as u64,
            rows: 0,
            groups: Vec::new(),
            names: Default::default(),
            steps: Vec::new(),
            times: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Adds a row.
    pub fn row(&mut self, run: &str, tag: &str, step: i64, wall_time: f64, value: f32) -> io::Result<()> {
        self.names[0].push(run);
        self.names[1].push(tag);
        self.steps.push(step);
        self.times.push(wall_time);
        self.values.push(value);
        if self.steps.len() == GROUP { self.end_group() } else { Ok(()) }
    }

    /// Writes what is left and the description of everything. Returns how many rows there are.
    pub fn finish(mut self) -> io::Result<u64> {
        if !self.steps.is_empty() {
            self.end_group()?;
        }
        let description = describe(self.rows, &self.groups);
        self.out.write_all(&description)?;
        self.out.write_all(&(description.len() as u32).to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        Ok(self.rows)
    }

    fn end_group(&mut self) -> io::Result<()> {
        let (start, rows) = (self.offset, self.steps.len());
        let mut chunks = Vec::new();
        for names in std::mem::take(&mut self.names) {
            let dictionary = self.page(2, names.different.len(), PLAIN, &names.dictionary())?;
            let data = self.page(0, rows, RLE_DICTIONARY, &names.indices())?;
            chunks.push(Chunk { dictionary: Some(dictionary), data, end: self.offset });
        }
        let steps = std::mem::take(&mut self.steps).into_iter().flat_map(i64::to_le_bytes).collect::<Vec<u8>>();
        let times = std::mem::take(&mut self.times).into_iter().flat_map(f64::to_le_bytes).collect();
        let values = std::mem::take(&mut self.values).into_iter().flat_map(f32::to_le_bytes).collect();
        for numbers in [steps, times, values] {
            let data = self.page(0, rows, PLAIN, &numbers)?;
            chunks.push(Chunk { dictionary: None, data, end: self.offset });
        }
        self.rows += rows as u64;
        self.groups.push(Group { rows, bytes: self.offset - start, chunks });
        Ok(())
    }

    /// Writes a page of kind 0 (data) or 2 (dictionary); returns where it begins.
    fn page(&mut self, kind: i64, values: usize, encoding: i64, content: &[u8]) -> io::Result<u64> {
        let mut header = Thrift::default();
        let size = content.len() as i64;
        header.i32(1, kind).i32(2, size).i32(3, size);
        // Levels have an encoding even where all columns are required and there are none.
        match kind {
            2 => header.structure(7, |page| page.i32(1, values as i64).i32(2, encoding)),
            _ => header.structure(5, |page| page.i32(1, values as i64).i32(2, encoding).i32(3, RLE).i32(4, RLE)),
        };
        let header = header.end();
        self.out.write_all(&header)?;
        self.out.write_all(content)?;
        let start = self.offset;
        self.offset += (header.len() + content.len()) as u64;
        Ok(start)
    }
}

/// The schema and where everything lies.
fn describe(rows: u64, groups: &[Group]) -> Vec<u8> {
    let mut file = Thrift::default();
    file.i32(1, 1).list(2, COLUMNS.len() + 1, |index, element| {
        let Some((name, kind)) = index.checked_sub(1).map(|index| COLUMNS[index]) else {
            element.text(4, "scalars").i32(5, COLUMNS.len() as i64);
            return;
        };
        element.i32(1, kind).i32(3, 0).text(4, name);
        if kind == BYTE_ARRAY {
            // Text: in the old words and in the new ones.
            element.i32(6, 0).structure(10, |kind| kind.structure(1, |text| text));
        }
    });
    file.i64(3, rows as i64).list(4, groups.len(), |index, element| {
        let group = &groups[index];
        element.list(1, COLUMNS.len(), |column, element| chunk(element, column, group));
        element.i64(2, group.bytes as i64).i64(3, group.rows as i64);
    });
    file.text(6, concat!("octant ", env!("CARGO_PKG_VERSION")));
    file.end()
}

fn chunk(element: &mut Thrift, column: usize, group: &Group) {
    let (name, kind) = COLUMNS[column];
    let Chunk { dictionary, data, end } = group.chunks[column];
    let start = dictionary.unwrap_or(data);
    let encodings: &[i64] = if dictionary.is_some() { &[PLAIN, RLE, RLE_DICTIONARY] } else { &[PLAIN, RLE] };
    element.i64(2, start as i64).structure(3, |chunk| {
        chunk.i32(1, kind).numbers(2, encodings).texts(3, &[name]).i32(4, 0).i64(5, group.rows as i64);
        chunk.i64(6, (end - start) as i64).i64(7, (end - start) as i64).i64(9, data as i64);
        if let Some(dictionary) = dictionary {
            chunk.i64(11, dictionary as i64);
        }
        chunk
    });
}

/// One struct of Thrift's compact protocol. Fields must be written in the order of their numbers.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    last: u8,
}

impl Thrift {
    fn field(&mut self, number: u8, kind: u8) -> &mut Thrift {
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
        self
    }

    fn zigzag(&mut self, value: i64) {
        self.bytes.extend(varint((value << 1 ^ value >> 63) as u64));
    }

    fn i32(&mut self, number: u8, value: i64) -> &mut Thrift {
        self.field(number, 5).zigzag(value);
        self
    }

    fn i64(&mut self, number: u8, value: i64) -> &mut Thrift {
        self.field(number, 6).zigzag(value);
        self
    }

    fn string(&mut self, text: &str) {
        self.bytes.extend(varint(text.len() as u64));
        self.bytes.extend(text.as_bytes());
    }

    fn text(&mut self, number: u8, text: &str) -> &mut Thrift {
        self.field(number, 8).string(text);
        self
    }

    fn structure(&mut self, number: u8, write: impl FnOnce(&mut Thrift) -> &mut Thrift) -> &mut Thrift {
        let mut inner = Thrift::default();
        write(&mut inner);
        self.field(number, 12).bytes.extend(inner.end());
        self
    }

    fn items(&mut self, number: u8, kind: u8, count: usize) -> &mut Thrift {
        self.field(number, 9).bytes.push((count.min(15) as u8) << 4 | kind);
        if count >= 15 {
            self.bytes.extend(varint(count as u64));
        }
        self
    }

    fn list(&mut self, number: u8, count: usize, write: impl Fn(usize, &mut Thrift)) -> &mut Thrift {
        self.items(number, 12, count);
        for index in 0..count {
            let mut inner = Thrift::default();
            write(index, &mut inner);
            self.bytes.extend(inner.end());
        }
        self
    }

    fn numbers(&mut self, number: u8, values: &[i64]) -> &mut Thrift {
        self.items(number, 5, values.len());
        values.iter().for_each(|value| self.zigzag(*value));
        self
    }

    fn texts(&mut self, number: u8, texts: &[&str]) -> &mut Thrift {
        self.items(number, 8, texts.len());
        texts.iter().for_each(|text| self.string(text));
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}
