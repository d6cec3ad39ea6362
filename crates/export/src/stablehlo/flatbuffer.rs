//! Messages of the FlatBuffers format, written from front to back.
//!
//! A message is a tree: tables of numbered fields, strings and vectors. A field that is longer than four bytes is an offset to
//! something behind it, so that a parent is written before its children.

/// Something that fields and vectors refer to.
pub enum Item {
    /// Fields by their number.
    Table(Vec<(usize, Field)>),
    Text(String),
    Bytes(Vec<u8>),
    /// A vector of 16-bit numbers.
    Shorts(Vec<u16>),
    /// A vector of 32-bit numbers.
    Words(Vec<u32>),
    /// A vector of offsets.
    Items(Vec<Item>),
}

/// A field of a table.
pub enum Field {
    Byte(u8),
    Short(u16),
    Word(u32),
    Item(Item),
}

/// A message with that root.
pub fn message(root: &Item) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    let position = write(&mut bytes, root);
    patch(&mut bytes, 0, position);
    bytes
}

/// The bytes of a vector of bytes in a message: field `number` of its root.
pub fn bytes_of_root(message: &[u8], number: usize) -> Option<&[u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(message.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let short = |at: usize| Some(u16::from_le_bytes(message.get(at..at.checked_add(2)?)?.try_into().ok()?));
    let offset = |at: usize| at.checked_add(usize::try_from(word(at)?).ok()?);
    let root = offset(0)?;
    let fields = usize::try_from(i64::try_from(root).ok()? - i64::from(word(root)? as i32)).ok()?;
    let entry = 4 + 2 * number;
    let field = (entry < usize::from(short(fields)?)).then(|| short(fields + entry))??;
    let vector = (field != 0).then(|| offset(root + usize::from(field)))??;
    let (start, length) = (vector + 4, usize::try_from(word(vector)?).ok()?);
    message.get(start..start.checked_add(length)?)
}

/// Writes an item and returns where it begins.
fn write(bytes: &mut Vec<u8>, item: &Item) -> usize {
    align(bytes, 4);
    match item {
        Item::Table(fields) => table(bytes, fields),
        Item::Text(text) => {
            let position = vector(bytes, text.len(), text.as_bytes());
            bytes.push(0);
            position
        }
        Item::Bytes(contents) => vector(bytes, contents.len(), contents),
        Item::Shorts(numbers) => {
            vector(bytes, numbers.len(), &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>())
        }
        Item::Words(numbers) => {
            vector(bytes, numbers.len(), &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>())
        }
        Item::Items(items) => {
            let position = vector(bytes, items.len(), &vec![0; 4 * items.len()]);
            for (i, item) in items.iter().enumerate() {
                let child = write(bytes, item);
                patch(bytes, position + 4 + 4 * i, child);
            }
            position
        }
    }
}

/// The number of elements, then the elements.
fn vector(bytes: &mut Vec<u8>, count: usize, elements: &[u8]) -> usize {
    let position = bytes.len();
    bytes.extend((count as u32).to_le_bytes());
    bytes.extend(elements);
    position
}

/// The list of where fields lie, then the table with four bytes per field, then what fields refer to.
fn table(bytes: &mut Vec<u8>, fields: &[(usize, Field)]) -> usize {
    let entries = fields.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
    let (list, position) = (bytes.len(), (bytes.len() + 4 + 2 * entries).next_multiple_of(4));
    let mut offsets = vec![0u16; 2 + entries];
    (offsets[0], offsets[1]) = ((4 + 2 * entries) as u16, (4 + 4 * fields.len()) as u16);
    for (i, (number, _)) in fields.iter().enumerate() {
        offsets[2 + number] = (4 + 4 * i) as u16;
    }
    bytes.extend(offsets.iter().flat_map(|offset| offset.to_le_bytes()));
    align(bytes, 4);
    bytes.extend(((position - list) as u32).to_le_bytes());
    for (_, field) in fields {
        let number = match *field {
            Field::Byte(number) => number.into(),
            Field::Short(number) => number.into(),
            Field::Word(number) => number,
            Field::Item(_) => 0,
        };
        bytes.extend(number.to_le_bytes());
    }
    for (i, (_, field)) in fields.iter().enumerate() {
        if let Field::Item(item) = field {
            let child = write(bytes, item);
            patch(bytes, position + 4 + 4 * i, child);
        }
    }
    position
}

fn align(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

/// Makes the offset at `at` refer to `position`.
fn patch(bytes: &mut [u8], at: usize, position: usize) {
    bytes[at..at + 4].copy_from_slice(&((position - at) as u32).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_behind_others_is_read_back() {
        let text = Item::Text("x".into());
        let root = Item::Table(vec![
            (0, Field::Short(3)),
            (5, Field::Item(Item::Bytes(vec![1, 2, 3]))),
            (2, Field::Item(Item::Items(vec![text, Item::Table(vec![])]))),
        ]);
        let bytes = message(&root);
        assert_eq!(bytes_of_root(&bytes, 5), Some(&[1, 2, 3][..]));
        assert_eq!(bytes_of_root(&bytes, 1), None, "a field that is not there");
        assert_eq!(bytes_of_root(&bytes, 9), None, "a field behind the last one");
        (0..bytes.len()).for_each(|length| assert!(bytes_of_root(&bytes[..length], 9).is_none()));
    }
}
