//! What people and machines see.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// One JSON object per line on standard output.
pub(crate) struct Json;

impl Json {
    pub fn line(value: serde_json::Value) {
        line(value);
    }
}

/// A line on standard output. Whoever stops reading it is no reason to fail.
pub(crate) fn line(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// `octant models | head` ends quietly when `head` has seen enough; Rust ignores that signal, and `println!` panics instead.
/// Training does not ask for this: whoever stops its reader, perhaps with the same Ctrl-C, still wants the last checkpoint.
#[cfg(unix)]
pub(crate) fn end_quietly_with_the_reader() {
    // SAFETY: the default action needs no handler, and no thread runs yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Elsewhere there is no such signal.
#[cfg(not(unix))]
pub(crate) fn end_quietly_with_the_reader() {}

/// The columns of the terminal behind standard error.
#[cfg(unix)]
fn columns() -> Option<usize> {
    // SAFETY: a window size is plain numbers, for which zero is a value.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the request fills the structure it is given, which lives until after the call.
    let answer = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size) };
    (answer == 0 && size.ws_col > 0).then_some(size.ws_col as usize)
}

#[cfg(not(unix))]
fn columns() -> Option<usize> {
    None
}

/// A line for the terminal behind standard error, cut where it would wrap: such a line could not be drawn over.
pub(crate) fn shortened(line: &str) -> String {
    line.chars().take(columns().unwrap_or(usize::MAX).saturating_sub(1)).collect()
}

/// Bytes with a unit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A duration with a unit that suits it.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{} min {} s", s as u64 / 60, s as u64 % 60),
        s => format!("{} h {} min", s as u64 / 3600, s as u64 % 3600 / 60),
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
    /// Redraws are this far apart at least: reading numbers makes the host wait for the device.
    const INTERVAL: Duration = Duration::from_millis(200);
    const WIDTH: u64 = 24;

    pub fn new(label: String, total: u64) -> Bar {
        Bar { label, total, began: Instant::now(), drawn: None, visible: std::io::stderr().is_terminal() }
    }

    /// Whether it is time to draw again; if not, nobody needs the numbers.
    pub fn is_due(&self) -> bool {
        self.visible && self.drawn.is_none_or(|drawn| drawn.elapsed() >= Self::INTERVAL)
    }

    pub fn draw(&mut self, done: u64, text: &str) {
        self.draw_over(done, self.total, text);
    }

    /// The same for a part of the work that is counted apart.
    pub fn draw_over(&mut self, done: u64, total: u64, text: &str) {
        self.drawn = Some(Instant::now());
        let filled = (done * Self::WIDTH).checked_div(total).unwrap_or(Self::WIDTH).min(Self::WIDTH) as usize;
        let bar = format!("{}{}", "━".repeat(filled), "·".repeat(Self::WIDTH as usize - filled));
        let line = format!("{}  {done}/{total} {bar} {text}", self.label);
        eprint!("\r\x1b[2K{}", shortened(&line));
        let _ = std::io::stderr().flush();
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

    /// Removes the bar and leaves a finished line in its place.
    pub fn finish(self, line: &str) {
        self.clear();
        self::line(line);
    }

    /// How long it has been there.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}
