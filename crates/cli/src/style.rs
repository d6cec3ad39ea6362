//! Color and weight of text, where a person looks at it.

use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::OnceLock;

/// Whether standard output is a terminal that shows colors, and colors are not switched off (<https://no-color.org>).
fn is_colored() -> bool {
    static COLORED: OnceLock<bool> = OnceLock::new();
    *COLORED.get_or_init(|| {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
        std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
    })
}

fn with(code: &str, text: impl Display) -> String {
    if is_colored() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
}

/// Headings, and the words that a line begins with.
pub(crate) fn bold(text: impl Display) -> String {
    with("1", text)
}

/// What matters less than the lines around it.
pub(crate) fn dim(text: impl Display) -> String {
    with("2", text)
}

/// The number that decides.
pub(crate) fn good(text: impl Display) -> String {
    with("32", text)
}

/// What can be typed.
pub(crate) fn command(text: impl Display) -> String {
    with("36", text)
}
