//! Texts in the columns of a terminal: how many they take, cut off, and broken into lines.

/// The columns that a text takes: its letters without escape sequences.
pub fn width(text: &str) -> usize {
    let mut columns = 0;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => drop(letters.by_ref().find(|letter| *letter == 'm')),
            _ => columns += 1,
        }
    }
    columns
}

/// The line with breaks between words, so that none is longer than `columns`; what follows a break is indented.
pub fn wrapped(line: &str, columns: usize) -> String {
    let indent: String = line.chars().take_while(|letter| *letter == ' ').collect::<String>() + "  ";
    let (mut text, mut used) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        if used > 0 && used + width(word.trim_end()) > columns {
            text.truncate(text.trim_end().len());
            text += &format!("\n{indent}");
            used = indent.len();
        }
        text += word;
        used += width(word);
    }
    text
}

/// The text in so many columns.
pub fn cut(text: &str, room: usize) -> String {
    match text.chars().count() <= room {
        true => text.to_string(),
        false => text.chars().take(room.saturating_sub(1)).chain(['…']).take(room).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_take_no_columns() {
        assert_eq!(width("\x1b[1mepoch 1/5\x1b[0m  µs"), 13);
    }

    #[test]
    fn lines_break_between_words() {
        let text = wrapped("  bound by input (61 % of the time); more workers would help", 30);
        assert_eq!(text, "  bound by input (61 % of the\n    time); more workers would\n    help");
        assert!(text.lines().all(|line| line.chars().count() <= 30));
        assert_eq!(wrapped("short", 30), "short");
    }

    #[test]
    fn texts_are_cut_where_the_line_ends() {
        assert_eq!(cut("MIT (KAIR)", 10), "MIT (KAIR)");
        assert_eq!(cut("Apache-2.0 (timm)", 11), "Apache-2.0…");
        assert_eq!((cut("MIT", 1), cut("MIT", 0)), ("…".to_string(), String::new()));
    }
}
