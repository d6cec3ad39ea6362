//! Keys of blobs: which run, which tag, which value, which of its parts.

use crate::run::Run;
use std::sync::Arc;

/// Where a blob is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobKey {
    pub run: u32,
    pub index: usize,
    pub part: usize,
    pub tag: String,
}

impl BlobKey {
    pub fn parse(text: &str) -> Option<BlobKey> {
        let mut parts = text.splitn(4, '.');
        let mut number = || parts.next()?.parse::<usize>().ok();
        let (run, index, part) = (number()?, number()?, number()?);
        let tag = parts.next()?.to_string();
        Some(BlobKey { run: u32::try_from(run).ok()?, index, part, tag })
    }
}

impl std::fmt::Display for BlobKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}.{}.{}", self.run, self.index, self.part, self.tag)
    }
}

/// How many parts the values of a tag have at most: as many as the first, the last and one between.
pub fn most_parts(run: &Arc<Run>, tag: &str, parts: impl Fn(&[u8]) -> usize) -> usize {
    let stored = run.stored(tag);
    let some = [0, stored.len() / 2, stored.len().saturating_sub(1)];
    let counts = some.iter().filter_map(|&index| stored.get(index)?.read(1 << 28).ok()).map(|value| parts(&value));
    counts.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back_with_any_tag() {
        let key = BlobKey { run: 3, index: 14, part: 2, tag: "a.b/c d.%".into() };
        assert_eq!(BlobKey::parse(&key.to_string()), Some(key));
        for wrong in ["", "1.2.3", "a.1.2.x", "-1.0.0.x", "99999999999999.0.0.x"] {
            assert_eq!(BlobKey::parse(wrong), None, "{wrong:?}");
        }
    }
}
