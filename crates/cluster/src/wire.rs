//! What clients and the coordinator send each other: frames of a length (u32, little-endian) and so many bytes.
//!
//! A client begins with [`HELLO`], so that a process that talks another protocol is refused at its first bytes. Then requests
//! and replies alternate.

use crate::store::{MOST_KEY_BYTES, MOST_VALUE_BYTES, StoreError};
use std::io::{self, Read, Write};
use std::time::Duration;

/// The first bytes of a connection, with the version of the protocol.
pub const HELLO: &[u8; 8] = b"octant\x00\x01";

/// A longer frame is no request of ours.
const MOST_REQUEST: usize = MOST_KEY_BYTES + MOST_VALUE_BYTES + 64;
/// A list of the values of all ranks.
const MOST_REPLY: usize = 256 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Put { key: String, value: Vec<u8>, replaces: bool },
    Get { key: String, time_out: Duration },
    TryGet { key: String },
    List { prefix: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Done,
    Value(Vec<u8>),
    Listed(Vec<(String, Vec<u8>)>),
    Failed(StoreError),
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Request::Put { key, value, replaces } => {
                bytes.push(if *replaces { 2 } else { 1 });
                write_part(&mut bytes, key.as_bytes());
                write_part(&mut bytes, value);
            }
            Request::Get { key, time_out } => {
                bytes.push(3);
                write_part(&mut bytes, key.as_bytes());
                bytes.extend(u64::try_from(time_out.as_millis()).unwrap_or(u64::MAX).to_le_bytes());
            }
            Request::TryGet { key } => {
                bytes.push(4);
                write_part(&mut bytes, key.as_bytes());
            }
            Request::List { prefix } => {
                bytes.push(5);
                write_part(&mut bytes, prefix.as_bytes());
            }
        }
        bytes
    }

    /// None for bytes that are no request.
    pub fn decode(bytes: &[u8]) -> Option<Request> {
        let mut parts = Parts(bytes);
        let request = match parts.byte()? {
            kind @ (1 | 2) => Request::Put { key: parts.text()?, value: parts.part()?.to_vec(), replaces: kind == 2 },
            3 => Request::Get { key: parts.text()?, time_out: Duration::from_millis(parts.number()?) },
            4 => Request::TryGet { key: parts.text()? },
            5 => Request::List { prefix: parts.text()? },
            _ => return None,
        };
        parts.0.is_empty().then_some(request)
    }
}

impl Reply {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut failure = |kind: u8, text: &str, waited: Duration| {
            bytes.push(kind);
            write_part(&mut bytes, text.as_bytes());
            bytes.extend(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX).to_le_bytes());
        };
        match self {
            Reply::Done => bytes.push(0),
            Reply::Value(value) => {
                bytes.push(1);
                write_part(&mut bytes, value);
            }
            Reply::Listed(pairs) => {
                bytes.push(2);
                for (key, value) in pairs {
                    write_part(&mut bytes, key.as_bytes());
                    write_part(&mut bytes, value);
                }
            }
            Reply::Failed(StoreError::AlreadyExists(key)) => failure(10, key, Duration::ZERO),
            Reply::Failed(StoreError::TimedOut { key, waited }) => failure(11, key, *waited),
            Reply::Failed(StoreError::NotFound(key)) => failure(12, key, Duration::ZERO),
            Reply::Failed(StoreError::Refused(text)) => failure(13, text, Duration::ZERO),
            Reply::Failed(StoreError::Unreachable(text)) => failure(14, text, Duration::ZERO),
        }
        bytes
    }

    /// None for bytes that are no reply.
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        let mut parts = Parts(bytes);
        let reply = match parts.byte()? {
            0 => Reply::Done,
            1 => Reply::Value(parts.part()?.to_vec()),
            2 => {
                let mut pairs = Vec::new();
                while !parts.0.is_empty() {
                    pairs.push((parts.text()?, parts.part()?.to_vec()));
                }
                Reply::Listed(pairs)
            }
            kind => {
                let (text, waited) = (parts.text()?, Duration::from_millis(parts.number()?));
                Reply::Failed(match kind {
                    10 => StoreError::AlreadyExists(text),
                    11 => StoreError::TimedOut { key: text, waited },
                    12 => StoreError::NotFound(text),
                    13 => StoreError::Refused(text),
                    14 => StoreError::Unreachable(text),
                    _ => return None,
                })
            }
        };
        parts.0.is_empty().then_some(reply)
    }
}

fn write_part(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(part);
}

/// The rest of a frame that is being decoded.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn part(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(length).ok()?)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.part()?.to_vec()).ok()
    }
}

/// Writes one frame.
pub fn send(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::Error::other("a frame is too long"))?;
    // One write: two small ones would wait for each other's acknowledgment.
    stream.write_all(&[&length.to_le_bytes(), bytes].concat())
}

/// Reads a request's frame.
pub fn receive_request(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    receive(stream, MOST_REQUEST)
}

/// Reads a reply's frame.
pub fn receive_reply(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    receive(stream, MOST_REPLY)
}

/// Reads one frame. Memory grows with the bytes that come, not with the length that is claimed.
fn receive(stream: &mut impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    let mut bytes = Vec::new();
    stream.take(length as u64).read_to_end(&mut bytes)?;
    match bytes.len() == length {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_survive_the_wire_and_nothing_else_does() {
        let requests = [
            Request::Put { key: "a/b".into(), value: vec![0, 255, 7], replaces: false },
            Request::Put { key: "ä".into(), value: vec![], replaces: true },
            Request::Get { key: "k".into(), time_out: Duration::from_millis(1500) },
            Request::TryGet { key: "k".into() },
            Request::List { prefix: "".into() },
        ];
        for request in requests {
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes), Some(request.clone()));
            assert!((0..bytes.len()).all(|length| Request::decode(&bytes[..length]) != Some(request.clone())));
            assert_eq!(Request::decode(&[bytes, vec![0]].concat()), None, "bytes behind the end");
        }
        let replies = [
            Reply::Done,
            Reply::Value(vec![1; 300]),
            Reply::Listed(vec![("x".into(), vec![]), ("y".into(), vec![9])]),
            Reply::Failed(StoreError::AlreadyExists("k".into())),
            Reply::Failed(StoreError::TimedOut { key: "k".into(), waited: Duration::from_millis(250) }),
            Reply::Failed(StoreError::NotFound("k".into())),
            Reply::Failed(StoreError::Refused("no".into())),
            Reply::Failed(StoreError::Unreachable("gone".into())),
        ];
        replies.into_iter().for_each(|reply| assert_eq!(Reply::decode(&reply.encode()), Some(reply)));
        assert_eq!((Request::decode(&[]), Request::decode(&[9]), Reply::decode(&[99])), (None, None, None));
        // A length beyond the frame.
        assert_eq!(Request::decode(&[4, 255, 255, 255, 255, b'k']), None);
    }

    #[test]
    fn a_length_that_is_claimed_takes_no_memory() {
        let claimed = (MOST_REQUEST as u32).to_le_bytes();
        assert_eq!(receive_request(&mut &claimed[..]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let too_long = u32::MAX.to_le_bytes();
        assert_eq!(receive_request(&mut &too_long[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
