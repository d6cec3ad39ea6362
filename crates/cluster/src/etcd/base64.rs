//! Bytes as etcd's gateway writes them in JSON.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Three bytes are four letters; `=` stands for those that a last group lacks.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..4 {
            let index = bits >> (18 - 6 * letter) & 63;
            text.push(if letter <= group.len() { LETTERS[index as usize] as char } else { '=' });
        }
    }
    text
}

/// None for a text that is something else.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let letters = text.trim_end_matches('=').as_bytes();
    if !text.len().is_multiple_of(4) || text.len() - letters.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for group in letters.chunks(4) {
        let mut bits = 0u32;
        for letter in group {
            let index = LETTERS.iter().position(|known| known == letter)?;
            bits = bits << 6 | index as u32;
        }
        bits <<= 6 * (4 - group.len());
        let of_group = bits.to_be_bytes();
        bytes.extend(&of_group[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_and_the_known_letters_come_out() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!((encode(bytes.as_bytes()), decode(text)), (text.to_string(), Some(bytes.into())));
        }
        let all: Vec<u8> = (0..=255).collect();
        (0..=255).for_each(|length| assert_eq!(decode(&encode(&all[..length])).as_deref(), Some(&all[..length])));
        assert!(["Zg", "Z===", "Zm9v!Zm9", "Zg=x"].iter().all(|text| decode(text).is_none()));
    }
}
