//! Text on images and charts: Roboto (Apache 2.0, see `fonts/LICENSE`), reduced to Latin, Greek and Cyrillic letters and
//! common signs, with soft edges. Letters that it lacks come from a font of the system that has them, if there is one.

use ab_glyph::{Font, FontArc, FontVec, PxScale, ScaleFont, point};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, OnceLock};

static FILE: &[u8] = include_bytes!("../fonts/Roboto-Regular.ttf");

/// What a text that is too long ends in.
const ELLIPSIS: char = '…';

/// The embedded font.
fn embedded() -> Option<&'static FontArc> {
    static FONT: OnceLock<Option<FontArc>> = OnceLock::new();
    FONT.get_or_init(|| FontArc::try_from_slice(FILE).ok()).as_ref()
}

/// The font that a letter is drawn with: the embedded one, or the first of the system that has the letter.
fn font_of(letter: char) -> Option<FontArc> {
    static OTHERS: LazyLock<Mutex<HashMap<char, Option<FontArc>>>> = LazyLock::new(Default::default);
    let embedded = embedded()?;
    let has = |font: &FontArc| font.glyph_id(letter).0 != 0;
    if has(embedded) || letter.is_control() {
        return Some(embedded.clone());
    }
    let mut others = OTHERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(known) = others.get(&letter) {
        return Some(known.as_ref().unwrap_or(embedded).clone());
    }
    // Names are mostly of one script: fonts that were loaded for other letters are tried before further files.
    let found = others.values().flatten().find(|font| has(font)).cloned();
    let found = found.or_else(|| system_fonts().iter().filter_map(read).find(has));
    others.insert(letter, found.clone());
    Some(found.unwrap_or_else(|| embedded.clone()))
}

/// The font files of the system, in the order of their paths.
fn system_fonts() -> &'static [PathBuf] {
    static FILES: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
        let roots = ["/usr/share/fonts", "/usr/local/share/fonts", "/System/Library/Fonts", "/Library/Fonts"];
        let mut open: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
        open.extend(std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share/fonts")));
        open.extend(std::env::var_os("WINDIR").map(|windows| PathBuf::from(windows).join("Fonts")));
        let mut files = Vec::new();
        while let Some(folder) = open.pop() {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
                if path.is_dir() && !path.is_symlink() {
                    open.push(path);
                } else if extension.is_some_and(|extension| ["ttf", "otf", "ttc"].contains(&extension.as_str())) {
                    files.push(path);
                }
            }
        }
        files.sort();
        files
    });
    &FILES
}

fn read(path: &PathBuf) -> Option<FontArc> {
    let bytes = std::fs::read(path).ok()?;
    FontVec::try_from_vec_and_index(bytes, 0).ok().map(FontArc::new)
}

/// How many pixels wide a text is whose lines are `size` pixels high.
pub fn width(text: &str, size: f32) -> f32 {
    let advance = |letter: char| {
        let font = font_of(letter)?;
        Some(font.as_scaled(PxScale::from(size)).h_advance(font.glyph_id(letter)))
    };
    text.chars().filter_map(advance).sum()
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

/// Calls `pixel` for every pixel that a line of text touches, with its coverage: column and row from
/// the upper left corner of the line.
pub fn draw(text: &str, size: f32, mut pixel: impl FnMut(i32, i32, f32)) {
    let Some(baseline) = embedded().map(|font| font.as_scaled(PxScale::from(size)).ascent()) else { return };
    let mut pen = 0.0;
    for letter in text.chars() {
        let Some(font) = font_of(letter) else { continue };
        let scaled = font.as_scaled(PxScale::from(size));
        let glyph = scaled.glyph_id(letter);
        let placed = glyph.with_scale_and_position(scaled.scale(), point(pen, baseline));
        pen += scaled.h_advance(glyph);
        if let Some(outline) = scaled.outline_glyph(placed) {
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
        // Letters that the embedded font lacks are drawn where the system has a font with them.
        let others = system_fonts().iter().filter_map(read).any(|font| font.glyph_id('鳥').0 != 0);
        assert_eq!(ink("鳥") != missing, others);
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
