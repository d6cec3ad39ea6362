//! Tar archives, read front to back without unpacking.

use std::io::{self, Read};

const BLOCK: usize = 512;
/// Names longer than this are not names.
const LONGEST_NAME: u64 = 1 << 16;

/// A member of an archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its path in the archive.
    pub name: String,
    /// Where its contents begin, counted from the start of the archive.
    pub offset: u64,
    /// How many bytes it has.
    pub size: u64,
}

/// Calls `visit` for every file with a reader over its contents; what is not read is skipped.
pub fn visit_members(
    source: impl Read,
    visit: impl FnMut(&Member, &mut dyn Read) -> Result<(), String>,
) -> Result<(), String> {
    visit_source(Stream(source), visit)
}

/// The same for an archive that is mapped: of what is not read no page is touched.
pub(super) fn visit_mapped(
    archive: &[u8],
    visit: impl FnMut(&Member, &mut dyn Read) -> Result<(), String>,
) -> Result<(), String> {
    visit_source(Mapped(archive), visit)
}

/// Where an archive comes from.
trait Source: Read {
    /// Passes over so many bytes; returns how many there were.
    fn skip(&mut self, count: u64) -> io::Result<u64>;
}

struct Stream<R>(R);

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> Source for Stream<R> {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        io::copy(&mut (&mut self.0).take(count), &mut io::sink())
    }
}

struct Mapped<'a>(&'a [u8]);

impl Read for Mapped<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Source for Mapped<'_> {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.0.len());
        self.0 = &self.0[count..];
        Ok(count as u64)
    }
}

fn visit_source(
    source: impl Source,
    mut visit: impl FnMut(&Member, &mut dyn Read) -> Result<(), String>,
) -> Result<(), String> {
    let mut source = Counting { source, position: 0 };
    let mut long_name: Option<String> = None;
    loop {
        let mut header = [0; BLOCK];
        match source.read_exact(&mut header) {
            Ok(()) => {}
            // Archives should end with empty blocks, but some just end.
            Err(_) if source.position.is_multiple_of(BLOCK as u64) && long_name.is_none() => return Ok(()),
            Err(error) => return Err(format!("the archive is cut off ({error})")),
        }
        if header.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        check_sum(&header)?;
        let size = number(&header[124..136]).ok_or("a size in the archive is damaged")?;
        let offset = source.position;
        let mut contents = (&mut source).take(size);
        match header[156] {
            // A long name for the next member: GNU's and POSIX's extensions.
            b'L' | b'x' => {
                let mut bytes = Vec::new();
                let mut limited = (&mut contents).take(LONGEST_NAME);
                limited.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
                long_name = if header[156] == b'L' { Some(text(&bytes)) } else { path_record(&bytes).or(long_name) };
            }
            0 | b'0' => {
                let name = long_name.take().unwrap_or_else(|| short_name(&header));
                visit(&Member { name, offset, size }, &mut contents)?;
            }
            _ => long_name = None,
        }
        let rest = contents.limit() + padding(size);
        let skipped = source.skip(rest);
        // The padding of the last member may be missing.
        if skipped.map_err(|error| error.to_string())? + padding(size) < rest {
            return Err("the archive is cut off".to_string());
        }
    }
}

fn padding(size: u64) -> u64 {
    (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64
}

struct Counting<R> {
    source: R,
    position: u64,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl<R: Source> Counting<R> {
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let skipped = self.source.skip(count)?;
        self.position += skipped;
        Ok(skipped)
    }
}

/// The header's own sum: its bytes, with the eight of the sum itself read as spaces.
fn check_sum(header: &[u8; BLOCK]) -> Result<(), String> {
    let sum: u64 = header.iter().map(|&byte| byte as u64).sum();
    let own: u64 = header[148..156].iter().map(|&byte| byte as u64).sum();
    let wanted = number(&header[148..156]);
    let matches = wanted == Some(sum - own + 8 * b' ' as u64);
    matches.then_some(()).ok_or_else(|| "it is not a tar archive or is damaged (a header's sum is wrong)".to_string())
}

/// Octal digits, or, for large files, binary after a set high bit.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let bytes = field[field.len() - 8..].try_into().ok()?;
        return Some(u64::from_be_bytes(bytes));
    }
    let digits = text(field);
    u64::from_str_radix(digits.trim(), 8).ok()
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn short_name(header: &[u8; BLOCK]) -> String {
    let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
    if &header[257..262] == b"ustar" && !prefix.is_empty() { format!("{prefix}/{name}") } else { name }
}

/// The path in a POSIX extended header: records of "length key=value".
fn path_record(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().find_map(|line| line.split_once(' ')?.1.strip_prefix("path=").map(str::to_string))
}

/// A member as it stands in an archive: header, contents, padding.
pub fn member_bytes(name: &str, contents: &[u8]) -> Result<Vec<u8>, String> {
    if name.len() > 100 {
        return Err(format!("{name:?} is too long a name for a tar archive (100 bytes)"));
    }
    let mut header = [0u8; BLOCK];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[108..115].copy_from_slice(b"0000000");
    header[116..123].copy_from_slice(b"0000000");
    header[124..135].copy_from_slice(format!("{:011o}", contents.len()).as_bytes());
    header[136..147].copy_from_slice(b"00000000000");
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[148..156].fill(b' ');
    let sum: u64 = header.iter().map(|&byte| byte as u64).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut bytes = header.to_vec();
    bytes.extend(contents);
    bytes.resize(bytes.len() + padding(contents.len() as u64) as usize, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_and_damage_is_noticed() {
        let mut archive = member_bytes("a/one.txt", b"hello").unwrap();
        archive.extend(member_bytes("two.bin", &[7; 1000]).unwrap());
        archive.extend([0; 1024]);
        let mut found = Vec::new();
        visit_members(&archive[..], |member, reader| {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
            assert_eq!(bytes, archive[member.offset as usize..][..member.size as usize]);
            found.push((member.name.clone(), bytes.len()));
            Ok(())
        })
        .unwrap();
        assert_eq!(found, [("a/one.txt".to_string(), 5), ("two.bin".to_string(), 1000)]);
        let mut mapped = Vec::new();
        visit_mapped(&archive, |member, _| {
            mapped.push((member.name.clone(), member.size as usize));
            Ok(())
        })
        .unwrap();
        assert_eq!(mapped, found);
        let cut = visit_members(&archive[..1600], |_, _| Ok(())).unwrap_err();
        assert!(cut.contains("cut off"), "{cut}");
        assert_eq!(visit_mapped(&archive[..1600], |_, _| Ok(())).unwrap_err(), cut);
        archive[3] ^= 1;
        assert!(visit_members(&archive[..], |_, _| Ok(())).unwrap_err().contains("sum"));
    }

    /// Counts what is read of a mapped archive.
    struct Touched<'a>(Mapped<'a>, &'a std::cell::Cell<usize>);

    impl Read for Touched<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1.set(self.1.get() + buffer.len());
            self.0.read(buffer)
        }
    }

    impl Source for Touched<'_> {
        fn skip(&mut self, count: u64) -> io::Result<u64> {
            self.0.skip(count)
        }
    }

    #[test]
    fn an_archive_was_read_as_a_whole_to_find_its_members() {
        let mut archive = member_bytes("a.png", &vec![7; 100_000]).unwrap();
        archive.extend(member_bytes("a.cls", b"3").unwrap());
        archive.extend([0; 1024]);
        let read = std::cell::Cell::new(0);
        visit_source(Touched(Mapped(&archive), &read), |_, _| Ok(())).unwrap();
        assert_eq!(read.get(), 3 * BLOCK, "two headers and the end");
    }
}
