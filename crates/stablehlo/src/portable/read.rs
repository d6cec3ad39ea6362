//! What a portable artifact says about itself.

use super::attributes::builtin::code;
use super::encoding::{Decoder, Section};
use super::{MAGIC, PRODUCER};
use std::collections::HashMap;

/// The text attributes of a module that [`crate::portable()`] wrote; none if it is another file.
pub fn portable_metadata(file: &[u8]) -> Option<Vec<(String, String)>> {
    let mut decoder = Decoder(file.strip_prefix(MAGIC)?);
    decoder.varint()?;
    decoder.0 = decoder.0.strip_prefix(PRODUCER.as_bytes())?.strip_prefix(&[0])?;
    let sections = sections(&mut decoder)?;
    let section = |section: Section| sections.get(&(section as u8)).copied();
    let strings = strings(section(Section::Strings)?)?;
    let attributes = attributes(section(Section::AttributeOffsets)?, section(Section::Attributes)?)?;
    // The module is the first operation: of one block with one operation, the name, the mask, the location, the attributes.
    let mut module = Decoder(section(Section::Operations)?);
    for _ in 0..2 {
        module.index()?;
    }
    module.byte()?;
    module.index()?;
    let mut dictionary = Decoder(attributes.get(module.index()?)?);
    let is = |decoder: &mut Decoder, wanted: u64| decoder.varint().filter(|found| *found == wanted);
    is(&mut dictionary, code::DICTIONARY)?;
    let text = |index: usize| -> Option<String> {
        let mut attribute = Decoder(attributes.get(index)?);
        is(&mut attribute, code::STRING)?;
        strings.get(attribute.index()?).cloned()
    };
    let mut found = Vec::new();
    for _ in 0..dictionary.index()? {
        let (name, value) = (dictionary.index()?, dictionary.index()?);
        // Numbers among the attributes are not metadata.
        if let Some(value) = text(value) {
            found.push((text(name)?, value));
        }
    }
    Some(found)
}

fn sections<'a>(decoder: &mut Decoder<'a>) -> Option<HashMap<u8, &'a [u8]>> {
    let mut found = HashMap::new();
    while !decoder.0.is_empty() {
        let section = decoder.byte()?;
        let length = decoder.index()?;
        found.insert(section, decoder.take(length)?);
    }
    Some(found)
}

fn strings(section: &[u8]) -> Option<Vec<String>> {
    let mut decoder = Decoder(section);
    let count = decoder.index()?;
    let mut lengths = (0..count).map(|_| decoder.index()).collect::<Option<Vec<_>>>()?;
    lengths.reverse();
    let text = |length: usize| {
        let bytes = decoder.take(length)?.strip_suffix(&[0])?;
        String::from_utf8(bytes.to_vec()).ok()
    };
    lengths.into_iter().map(text).collect()
}

/// The encodings of all attributes.
fn attributes<'a>(offsets: &[u8], section: &'a [u8]) -> Option<Vec<&'a [u8]>> {
    let (mut offsets, mut section) = (Decoder(offsets), Decoder(section));
    let (count, _) = (offsets.index()?, offsets.index()?);
    let mut found = Vec::new();
    while found.len() < count {
        offsets.index()?;
        for _ in 0..offsets.index()? {
            found.push(section.take(offsets.index()? >> 1)?);
        }
    }
    Some(found)
}
