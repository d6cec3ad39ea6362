//! Text and JSON output.

use octant_events::columns::{width, wrapped};
pub(crate) use octant_events::units::{bytes, count, duration};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One JSON object per line on standard output.
pub(crate) struct Json;

impl Json {
    pub fn line(value: serde_json::Value) {
        write(format_args!("{value}\n"));
    }
}

/// Training continues when its output is not read; every other command fails when its output cannot be written.
static IS_TRAINING: AtomicBool = AtomicBool::new(false);

/// What follows is printed by a run, which continues if its output cannot be written.
pub(crate) fn training_begins() {
    IS_TRAINING.store(true, Ordering::Relaxed);
}

/// Writes to standard output. A full disk is reported as an error, not as a panic.
pub(crate) fn write(text: std::fmt::Arguments) {
    let written = std::io::stdout().lock().write_fmt(text);
    if let Err(error) = written
        && !IS_TRAINING.load(Ordering::Relaxed)
    {
        cannot_be_written(&error);
    }
}

/// What is still in the buffer is written, too.
pub(crate) fn flush() {
    if let Err(error) = std::io::stdout().lock().flush()
        && !IS_TRAINING.load(Ordering::Relaxed)
    {
        cannot_be_written(&error);
    }
}

fn cannot_be_written(error: &std::io::Error) -> ! {
    if error.kind() != std::io::ErrorKind::BrokenPipe {
        eprintln!("octant: the output cannot be written: {error}");
    }
    std::process::exit(1)
}

/// The standard library's macros panic where the output cannot be written; these replace them in this crate.
macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*))) };
}
macro_rules! print {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

/// A line on standard output; on a terminal, lines that are too long break between words.
pub(crate) fn line(text: impl std::fmt::Display) {
    let text = text.to_string();
    match terminal_columns() {
        Some(columns) => text.lines().for_each(|line| println!("{}", wrapped(line, columns))),
        None => println!("{text}"),
    }
}

/// The columns that a line of a report may take where no narrower terminal shows it.
const REPORT: usize = 80;

/// A line of parts, without the last ones that do not fit; a part may be styled.
pub(crate) fn fitting(start: &str, parts: &[String]) -> String {
    let room = terminal_columns().unwrap_or(REPORT).min(REPORT);
    let mut line = start.to_string();
    for part in parts {
        if width(&line) + 2 + width(part) > room {
            break;
        }
        line += &format!("  {part}");
    }
    line
}

/// `octant models | head` ends quietly when `head` has seen enough; Rust ignores that signal, and `println!` panics instead.
/// Training does not use this: when its reader ends, perhaps by the same Ctrl-C, it must still write the last checkpoint.
#[cfg(unix)]
pub(crate) fn end_quietly_with_the_reader() {
    // SAFETY: the default action needs no handler, and no thread runs yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Elsewhere there is no such signal.
#[cfg(not(unix))]
pub(crate) fn end_quietly_with_the_reader() {}

/// The columns of the terminal where standard output is one.
pub(crate) fn terminal_columns() -> Option<usize> {
    std::io::stdout().is_terminal().then(columns).flatten()
}

/// The columns of the terminal behind standard error.
#[cfg(unix)]
pub(crate) fn columns() -> Option<usize> {
    // SAFETY: a window size is plain numbers, for which zero is a value.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the request fills the structure it is given, which lives until after the call.
    let status = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size) };
    (status == 0 && size.ws_col > 0).then_some(size.ws_col as usize)
}

#[cfg(not(unix))]
pub(crate) fn columns() -> Option<usize> {
    None
}

/// A line for the terminal behind standard error, cut where it would wrap: a wrapped line could not be overwritten.
pub(crate) fn shortened(line: &str) -> String {
    line.chars().take(columns().unwrap_or(usize::MAX).saturating_sub(1)).collect()
}

/// Removes what is being redrawn on the terminal behind standard error.
pub(crate) fn clear_line() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[2K");
    }
}

/// A bar on one line of a terminal, redrawn in place. On anything but a terminal it prints only its last state.
pub(crate) struct Bar {
    label: String,
    total: u64,
    began: Instant,
    drawn: Option<Instant>,
    visible: bool,
}

impl Bar {
    /// The shortest time between redraws: reading numbers makes the host wait for the device.
    pub const INTERVAL: Duration = Duration::from_millis(200);
    const WIDTH: u64 = 24;

    pub fn new(label: String, total: u64) -> Bar {
        Bar { label, total, began: Instant::now(), drawn: None, visible: std::io::stderr().is_terminal() }
    }

    /// Does work that reports how many of how many batches are done, with a bar; in JSON without one.
    pub fn watching<T, E>(
        label: &str,
        json: bool,
        work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut bar = Bar::new(label.into(), 1);
        let result = work(&mut |done, batches| {
            if !json && bar.is_due() {
                bar.draw_over(done, batches, "batches");
            }
        });
        bar.clear();
        result
    }

    /// Whether it is time to redraw; if not, the numbers need not be computed.
    pub fn is_due(&self) -> bool {
        self.visible && self.drawn.is_none_or(|drawn| drawn.elapsed() >= Self::INTERVAL)
    }

    pub fn draw(&mut self, done: u64, text: &str) {
        self.draw_over(done, self.total, text);
    }

    /// The same for a part of the work that is counted separately.
    pub fn draw_over(&mut self, done: u64, total: u64, text: &str) {
        self.drawn = Some(Instant::now());
        let shown = Self::fitting(&self.label, done, total, text, columns().unwrap_or(usize::MAX));
        eprint!("\r\x1b[2K{shown}");
        let _ = std::io::stderr().flush();
    }

    /// The label with a text of its own instead of a bar.
    pub fn draw_text(&mut self, text: &str) {
        self.drawn = Some(Instant::now());
        eprint!("\r\x1b[2K{}  {text}", self.label);
        let _ = std::io::stderr().flush();
    }

    /// A line that wraps could not be overwritten: on a narrow terminal the bar gets shorter, then the last words are left
    /// out, whole ones.
    fn fitting(label: &str, done: u64, total: u64, text: &str, columns: usize) -> String {
        let room = columns.saturating_sub(1);
        let start = format!("{label}  {done}/{total} ");
        let length = |text: &str| text.chars().count();
        let left = room.saturating_sub(length(&start) + length(text) + 1);
        let width = Self::WIDTH.min(left as u64).max(6);
        let filled = (done * width).checked_div(total).unwrap_or(width).min(width) as usize;
        let bar = format!("{}{}", "━".repeat(filled), "·".repeat(width as usize - filled));
        let mut line = format!("{start}{bar}");
        for part in text.split("  ") {
            if length(&line) + length(part) + 2 > room {
                break;
            }
            line += &format!("  {part}");
        }
        line.chars().take(room).collect()
    }

    /// Makes room for lines above it; the next draw brings it back.
    pub fn wipe(&self) {
        if self.visible {
            eprint!("\r\x1b[2K");
        }
    }

    /// Removes the bar.
    pub fn clear(self) {
        self.wipe();
    }

    /// Removes the bar and prints a finished line instead.
    pub fn finish(self, line: &str) {
        self.clear();
        self::line(line);
    }

    /// How long it has been there.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_a_shorter_bar_and_whole_words() {
        let text = "loss 0.1234  accuracy 0.9876  lr 0.0010  1234 images/s  12 s left";
        let wide = Bar::fitting("epoch 1/5", 60, 187, text, 200);
        assert!(wide.ends_with("12 s left") && wide.contains(&"·".repeat(10)), "{wide}");
        let narrow = Bar::fitting("epoch 1/5", 60, 187, text, 80);
        assert!(narrow.chars().count() < 80 && narrow.ends_with("lr 0.0010"), "{narrow}");
    }

    #[test]
    fn a_report_has_no_part_that_does_not_fit() {
        let parts = ["loss 0.1234", "a_metric_with_a_very_long_name 0.1234", "another 0.1234", "12345 images/s"];
        let line = fitting("epoch 1/5", &parts.map(str::to_string));
        assert_eq!(line, "epoch 1/5  loss 0.1234  a_metric_with_a_very_long_name 0.1234  another 0.1234");
        assert!(line.len() <= REPORT);
    }
}
