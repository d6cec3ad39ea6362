//! What processes report of themselves, as bytes.

use super::Failure;
use crate::exit::ExitCode;

/// What a process is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// Steps follow one another.
    Stepping,
    /// Something that may take long, such as "compiling".
    Busy(&'static str),
    /// All is done.
    Done,
    /// It failed, as this sentence says.
    Failed(String),
}

impl Activity {
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Activity::Done | Activity::Failed(_))
    }
}

/// One beat as it is written.
pub(super) struct Beat {
    pub count: u64,
    pub steps: u64,
    pub activity: Activity,
}

/// One beat as it is read.
pub(super) struct SeenBeat {
    pub count: u64,
    pub steps: u64,
    pub activity: SeenActivity,
}

#[derive(Clone, PartialEq)]
pub(super) enum SeenActivity {
    Stepping,
    Busy(String),
    Done,
    Failed(String),
}

impl Beat {
    pub fn encode(&self) -> Vec<u8> {
        let (kind, text) = match &self.activity {
            Activity::Stepping => ("stepping", ""),
            Activity::Busy(text) => ("busy", *text),
            Activity::Done => ("done", ""),
            Activity::Failed(text) => ("failed", text.as_str()),
        };
        format!("{}\n{}\n{kind}\n{text}", self.count, self.steps).into_bytes()
    }

    /// None for bytes that are no beat.
    pub fn decode(bytes: &[u8]) -> Option<SeenBeat> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.splitn(4, '\n');
        let (count, steps) = (lines.next()?.parse().ok()?, lines.next()?.parse().ok()?);
        let (kind, text) = (lines.next()?, lines.next()?.to_string());
        let activity = match kind {
            "stepping" => SeenActivity::Stepping,
            "busy" => SeenActivity::Busy(text),
            "done" => SeenActivity::Done,
            "failed" => SeenActivity::Failed(text),
            _ => return None,
        };
        Some(SeenBeat { count, steps, activity })
    }
}

/// A failure for the others.
pub(super) fn encode_failure(failure: &Failure) -> Vec<u8> {
    let ranks: Vec<String> = failure.ranks.iter().map(usize::to_string).collect();
    format!("{}\n{}\n{}", failure.exit.number(), ranks.join(","), failure.sentence).into_bytes()
}

pub(super) fn decode_failure(bytes: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.splitn(3, '\n');
    let code = lines.next().unwrap_or_default().to_string();
    let exit = if code == ExitCode::Stuck.number().to_string() { ExitCode::Stuck } else { ExitCode::PeerLost };
    let ranks = lines.next().unwrap_or_default().split(',').filter_map(|rank| rank.parse().ok()).collect();
    Failure { exit, ranks, sentence: lines.next().unwrap_or("another process failed").to_string() }
}
