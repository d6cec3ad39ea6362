//! Us and a peer in one run: processes take turns, so that whatever disturbs the machine happens to both.
//!
//! `turn` runs one of them; `sides` makes ratios of their figures.

mod sides;
mod turn;

pub use sides::{Ratio, Side};
pub use turn::Figures;

use crate::error::{Result, refusal, refuse};
use octant_zoo::ModelTask;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use turn::Turn;

/// How a peer is started.
struct Peer {
    name: &'static str,
    variants: &'static [&'static str],
    start: fn(&PeerPrograms, ModelTask) -> Result<Command>,
}

const PEERS: [Peer; 4] = [
    Peer {
        name: "pytorch",
        variants: &["eager", "channels-last", "compile"],
        start: |programs, task| match task {
            ModelTask::Classify | ModelTask::Segment => programs.python("pytorch_peer.py"),
            ModelTask::Detect | ModelTask::Instances => programs.python("detection_peer.py"),
            ModelTask::Pose | ModelTask::Rotated => {
                refuse!(
                    "there is no peer for networks to {}; bench/peers/same_learning.py compares their learning",
                    task.name()
                )
            }
            ModelTask::Translate => programs.python("translate_peer.py"),
        },
    },
    Peer { name: "jax", variants: &["jit"], start: |programs, _| programs.python("jax_peer.py") },
    Peer {
        name: "inference",
        variants: &["onnxruntime", "openvino"],
        start: |programs, _| programs.python("inference_peer.py"),
    },
    Peer { name: "burn", variants: &["flex"], start: |programs, _| programs.burn() },
];

/// Where the programs of peers are.
#[derive(Debug, Clone)]
pub struct PeerPrograms {
    /// The folder of their scripts: `bench/peers` of the repository.
    pub scripts: PathBuf,
    /// A Python that has the peer installed.
    pub python: OsString,
    /// Burn's built program, if it does not lie in its crate's own target folder.
    pub burn: Option<PathBuf>,
}

impl PeerPrograms {
    /// The scripts of a folder, with the programs that `OCTANT_PEER_PYTHON` and `OCTANT_PEER_BURN` name.
    pub fn from_environment(scripts: PathBuf) -> PeerPrograms {
        let python = std::env::var_os("OCTANT_PEER_PYTHON").unwrap_or_else(|| "python3".into());
        PeerPrograms { scripts, python, burn: std::env::var_os("OCTANT_PEER_BURN").map(PathBuf::from) }
    }

    fn python(&self, script: &str) -> Result<Command> {
        let script = self.scripts.join(script);
        if !script.exists() {
            refuse!(
                "there is no {}; see bench/peers/README.md in Octant's repository, and name the folder with --peers",
                script.display()
            );
        }
        let mut command = Command::new(&self.python);
        command.arg(script);
        Ok(command)
    }

    fn burn(&self) -> Result<Command> {
        let folder = self.scripts.join("burn");
        let program = self.burn.clone().unwrap_or_else(|| folder.join("target/release/octant-peer-burn"));
        if !program.exists() {
            refuse!(
                "there is no {}; run `RUSTFLAGS=\"-C target-cpu=native\" cargo build --release` in {}, or name the program \
                 with OCTANT_PEER_BURN",
                program.display(),
                folder.display()
            );
        }
        Ok(Command::new(program))
    }
}

/// What happens while sides take turns.
pub enum PeerEvent<'a> {
    /// A process is at work, reported once a second.
    Waiting {
        /// Which round.
        round: usize,
        /// Whose turn.
        side: &'a str,
        /// How long so far.
        time: Duration,
    },
    /// A side has taken its turn.
    Round {
        /// Which round.
        round: usize,
        /// Whose turn.
        side: &'a str,
        /// Its figures.
        figures: Figures,
    },
    /// A side could not be measured and takes no further turns.
    GaveUp {
        /// Which one.
        side: &'a str,
        /// Why.
        reason: &'a str,
    },
}

/// A comparison to be made.
pub struct PeerRun<'a> {
    /// The peer's name.
    pub peer: &'a str,
    /// Its variants; all that it has if empty.
    pub variants: &'a [String],
    /// What kind of model is measured.
    pub task: ModelTask,
    /// What both sides do, as flags that both understand.
    pub work: &'a [String],
    /// How often each takes its turn.
    pub rounds: usize,
    /// How long one turn of a variant may take.
    pub patience: Duration,
    /// Where the peers are.
    pub programs: &'a PeerPrograms,
}

/// What came out of all rounds.
pub struct Comparison {
    /// Us.
    pub ours: Side,
    /// The peer's variants.
    pub theirs: Vec<Side>,
    /// The fastest variant of each round, as a side of its own.
    pub best: Side,
    /// Which one that was, round by round.
    pub fastest: Vec<String>,
}

impl PeerRun<'_> {
    /// Lets both sides take turns; `ours` makes our command.
    pub fn compare(
        &self,
        ours: impl Fn() -> Result<Command>,
        observer: &mut dyn FnMut(PeerEvent),
    ) -> Result<Comparison> {
        let PeerRun { peer: name, rounds, .. } = *self;
        let found = PEERS.iter().find(|peer| peer.name == name);
        let names = PEERS.map(|peer| peer.name).join(", ");
        let peer = found.ok_or_else(|| refusal!("there is no peer \"{name}\"; there are {names}"))?;
        let variants: Vec<&str> = match self.variants.is_empty() {
            true => peer.variants.to_vec(),
            false => self.variants.iter().map(String::as_str).collect(),
        };
        if let Some(unknown) = variants.iter().find(|variant| !peer.variants.contains(variant)) {
            refuse!("{name} has no variant \"{unknown}\"; it has {}", peer.variants.join(", "));
        }
        let mut us = Side::new("octant");
        let mut theirs: Vec<Side> = variants.iter().map(|variant| Side::new(&format!("{name} {variant}"))).collect();
        for round in 1..=rounds {
            let figures = Turn::new(round, &us.label).take(ours()?, None, observer);
            let figures = figures.map_err(|error| refusal!("octant could not be measured: {error}"))?;
            us.record(round, figures, observer);
            for (side, variant) in theirs.iter_mut().zip(&variants).filter(|(side, _)| side.gave_up.is_none()) {
                let mut command = (peer.start)(self.programs, self.task)?;
                command.args(self.work).args(["--variant", variant]);
                match Turn::new(round, &side.label).take(command, Some(self.patience), observer) {
                    Ok(figures) => side.record(round, figures, observer),
                    // The others continue without it, so that a compiler that fails does not cost the whole run.
                    Err(error) => side.give_up(error.to_string(), observer),
                }
            }
            if theirs.iter().all(|side| side.gave_up.is_some()) {
                refuse!("no variant of {name} could be measured");
            }
        }
        let (best, fastest) = sides::best_of(name, &theirs);
        let fastest = fastest.into_iter().map(str::to_string).collect();
        Ok(Comparison { ours: us, theirs, best, fastest })
    }
}

impl Side {
    fn record(&mut self, round: usize, figures: Figures, observer: &mut dyn FnMut(PeerEvent)) {
        observer(PeerEvent::Round { round, side: &self.label, figures });
        self.rounds.push(figures);
    }

    fn give_up(&mut self, reason: String, observer: &mut dyn FnMut(PeerEvent)) {
        observer(PeerEvent::GaveUp { side: &self.label, reason: &reason });
        self.gave_up = Some(reason);
    }
}
