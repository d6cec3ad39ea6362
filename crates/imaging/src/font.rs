//! Text on images and charts: Roboto (Apache 2.0, see `fonts/LICENSE`), reduced to Latin, Greek and Cyrillic letters and
//! common signs, with soft edges.

use ab_glyph::{Font, FontRef, PxScale, ScaleFont, point};
use std::sync::OnceLock;

static FILE: &[u8] = include_bytes!("../fonts/Roboto-Regular.ttf");

/// What a text that is too long ends in.
const ELLIPSIS: char = '…';

fn font() -> Option<&'static FontRef<'static>> {
    static FONT: OnceLock<Option<FontRef<'static>>> = OnceLock::new();
    FONT.get_or_init(|| FontRef::try_from_slice(FILE).ok()).as_ref()
}

/// How many pixels wide a text is whose lines are `size` pixels high.
pub fn width(text: &str, size: f32) -> f32 {
    let Some(font) = font().map(|font| font.as_scaled(PxScale::from(size))) else { return 0.0 };
    text.chars().map(|letter| font.h_advance(font.glyph_id(letter))).sum()
}

/// The text, or as much of its beginning as fits into `room` pixels.
pub fn fitted(text: &str, size: f32, room: f32) -> String {
    if width(text, size) <= room {
        return text.to_string();
    }
    let mut left = room - width(&ELLIPSIS.to_string(), size);
    let fits = |letter: &char| {
        left -= width(&letter.to_string(), size);
        left >= 0.0
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{}{ELLIPSIS}", kept.trim_end())
}

/// Hands over every pixel that a line of text touches, with the share of it that is covered: column and row from the upper
/// left corner of the line.
pub fn draw(text: &str, size: f32, mut pixel: impl FnMut(i32, i32, f32)) {
    let Some(font) = font().map(|font| font.as_scaled(PxScale::from(size))) else { return };
    let mut pen = 0.0;
    for letter in text.chars() {
        let glyph = font.glyph_id(letter);
        let placed = glyph.with_scale_and_position(font.scale(), point(pen, font.ascent()));
        pen += font.h_advance(glyph);
        if let Some(outline) = font.outline_glyph(placed) {
            let corner = outline.px_bounds().min;
            outline.draw(|x, y, share| pixel(corner.x as i32 + x as i32, corner.y as i32 + y as i32, share.min(1.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ink(text: &str) -> Vec<(i32, i32)> {
        let mut dark = Vec::new();
        draw(text, 18.0, |x, y, share| dark.extend((share > 0.5).then_some((x, y))));
        dark
    }

    #[test]
    fn names_that_are_not_ascii_were_boxes() {
        let missing = ink("\u{E000}");
        for letter in ["ä", "ß", "é", "Ł", "ж", "Ω", "ñ", "×", "…", "–"] {
            assert!(!ink(letter).is_empty() && ink(letter) != missing, "{letter}");
        }
        assert!(ink(" ").is_empty());
        assert!(ink("Åg").iter().all(|&(x, y)| (0..30).contains(&x) && (0..19).contains(&y)));
    }

    #[test]
    fn what_does_not_fit_is_cut_with_an_ellipsis() {
        let (text, room) = ("a rather long name of a class", 80.0);
        let short = fitted(text, 18.0, room);
        assert!(short.ends_with('…') && short.len() > 8 && width(&short, 18.0) <= room, "{short}");
        assert_eq!(fitted("cat", 18.0, room), "cat");
        assert!(width("WWW", 18.0) > width("iii", 18.0));
    }
}
