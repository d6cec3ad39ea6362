//! Images in a terminal.

use crate::{AnyImage, DataError, encode_png};
use octant_imaging::Image;
use octant_imaging::resize::{Method, Resizable};
use octant_imaging::{Filter, Semantics};
use std::fmt::Write;

/// What a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Graphics {
    /// Whole images, by the protocol of kitty (also Ghostty, WezTerm, Konsole).
    Kitty,
    /// Whole images, by the protocol of iTerm2.
    Iterm,
    /// Colors: two pixels per character.
    Blocks,
}

impl Graphics {
    /// What the terminal can show, by what it says about itself in the variables that `variable` looks up.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Graphics {
        let program = variable("TERM_PROGRAM").unwrap_or_default();
        let term = variable("TERM").unwrap_or_default();
        // Inside tmux and screen the protocols need wrapping that depends on their settings.
        if variable("TMUX").is_some() || term.starts_with("screen") {
            return Graphics::Blocks;
        }
        match program.as_str() {
            "iTerm.app" => Graphics::Iterm,
            "WezTerm" | "ghostty" => Graphics::Kitty,
            _ if term.contains("kitty") || variable("KITTY_WINDOW_ID").is_some() => Graphics::Kitty,
            _ => Graphics::Blocks,
        }
    }

    /// The image as text for such a terminal, `columns` characters wide where that can be chosen.
    pub fn show(self, image: &Image<u8>, columns: usize) -> Result<String, DataError> {
        let contents = || {
            let png = encode_png(&AnyImage::U8(image.clone())).map_err(DataError::request)?;
            Ok::<String, DataError>(base64(&png))
        };
        Ok(match self {
            Graphics::Kitty => kitty(&contents()?, columns),
            Graphics::Iterm => format!("\x1b]1337;File=inline=1;width={columns}:{}\x07\n", contents()?),
            Graphics::Blocks => to_terminal(image, columns),
        })
    }
}

/// Chunks of at most 4096 characters; all but the last say that more follows.
fn kitty(contents: &str, columns: usize) -> String {
    const CHUNK: usize = 4096;
    let mut text = String::new();
    let chunks = contents.len().div_ceil(CHUNK);
    for number in 0..chunks {
        let chunk = &contents[number * CHUNK..contents.len().min((number + 1) * CHUNK)];
        let first = if number == 0 { format!("a=T,f=100,c={columns},") } else { String::new() };
        let more = (number + 1 < chunks) as u8;
        // Writing to a string cannot fail.
        let _ = write!(text, "\x1b_G{first}m={more};{chunk}\x1b\\");
    }
    text.push('\n');
    text
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let number = group.iter().fold(0u32, |number, &byte| number << 8 | byte as u32) << (8 * (3 - group.len()));
        for position in 0..4 {
            let sextet = number >> (18 - 6 * position) & 63;
            text.push(if position <= group.len() { ALPHABET[sextet as usize] as char } else { '=' });
        }
    }
    text
}

/// The image as colored half blocks, `columns` characters wide: two pixels per character, one above the other.
pub fn to_terminal(image: &Image<u8>, columns: usize) -> String {
    let columns = columns.clamp(1, image.width());
    let rows = (image.height() * columns).div_ceil(image.width()).next_multiple_of(2);
    let method = Method::new(Filter::Bilinear, Semantics::Pil);
    let small = image.resize(rows, columns, method).expect("Pillow has bilinear");
    let color = |row: usize, column: usize| match small.pixel(row, column) {
        [r, g, b, ..] => format!("{r};{g};{b}"),
        [value, ..] => format!("{value};{value};{value}"),
        [] => String::new(),
    };
    let mut text = String::new();
    for row in (0..rows).step_by(2) {
        for column in 0..columns {
            let (upper, lower) = (color(row, column), color(row + 1, column));
            // Writing to a string cannot fail.
            let _ = write!(text, "\x1b[38;2;{upper};48;2;{lower}m▀");
        }
        text.push_str("\x1b[0m\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_everybody_writes() {
        let texts = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }

    #[test]
    fn terminals_are_distinguished() {
        let with = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            Graphics::detect(move |name| set.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone()))
        };
        assert_eq!(with(&[("TERM", "xterm-kitty")]), Graphics::Kitty);
        assert_eq!(with(&[("TERM", "xterm-kitty"), ("TMUX", "1")]), Graphics::Blocks);
        assert_eq!(with(&[("TERM_PROGRAM", "iTerm.app"), ("TERM", "xterm-256color")]), Graphics::Iterm);
        assert_eq!(with(&[("TERM", "xterm-256color")]), Graphics::Blocks);
        let image = Image::filled(200, 200, 3, 7u8);
        assert!(Graphics::Kitty.show(&image, 40).unwrap().starts_with("\x1b_Ga=T,f=100,c=40,m="));
        assert!(Graphics::Iterm.show(&image, 40).unwrap().starts_with("\x1b]1337;File=inline=1;width=40:iVBOR"));
    }
}
