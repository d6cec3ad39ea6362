//! One process per board, several at work at a time, each for one compilation.

use crate::error::refuse;
use crate::{Launch, PlanError, PlanObserver, PlanRow, Result, Turn};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Messages to the thread of the observer.
enum Event {
    /// A board's compiler is at work on this.
    Began(usize, String),
    Compiled(Box<Turn>),
}

/// A board whose plan is not finished.
struct Board {
    index: usize,
    next: String,
    process: Option<Process>,
}

struct Process {
    child: Arc<Mutex<Child>>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Collects the compiler's own log, of which one sentence is reported.
    log: std::thread::JoinHandle<String>,
}

type Started = Mutex<Vec<Arc<Mutex<Child>>>>;

/// Plans all targets and reports their rows; false if it was stopped.
pub(crate) fn plan(
    targets: &[String],
    launch: &Launch<'_>,
    stop: &AtomicBool,
    observer: &mut dyn PlanObserver,
) -> bool {
    const TICK: Duration = Duration::from_millis(200);
    let boards = (0..targets.len()).map(|index| Board { index, next: "training step".into(), process: None });
    // First come, first served: every board gets its first turn before any gets its second.
    let queue: Mutex<VecDeque<Board>> = Mutex::new(boards.collect());
    let started: Started = Mutex::default();
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get()).min(targets.len());
    std::thread::scope(|scope| {
        let (send, events) = mpsc::channel();
        for _ in 0..workers {
            let (send, queue, started) = (send.clone(), &queue, &started);
            scope.spawn(move || work(targets, launch, queue, started, stop, &send));
        }
        drop(send);
        loop {
            match events.recv_timeout(TICK) {
                Ok(Event::Began(index, what)) => observer.began(&targets[index], what),
                Ok(Event::Compiled(turn)) => observer.compiled(*turn),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return !stop.load(Ordering::Relaxed),
            }
            if stop.load(Ordering::Relaxed) {
                for child in lock(&started).iter() {
                    let _ = lock(child).kill();
                }
            }
            observer.tick();
        }
    })
}

fn work(
    targets: &[String],
    launch: &Launch<'_>,
    queue: &Mutex<VecDeque<Board>>,
    started: &Started,
    stop: &AtomicBool,
    send: &mpsc::Sender<Event>,
) {
    while !stop.load(Ordering::Relaxed) {
        // Another worker's board may come back, but then that worker takes it.
        let Some(mut board) = lock(queue).pop_front() else { return };
        let _ = send.send(Event::Began(board.index, board.next.clone()));
        let target = &targets[board.index];
        let turn = board.turn(target, launch, started);
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let failed = |error: PlanError| Turn { row: PlanRow::failed(target, error.to_string()), next: None, left: 0 };
        let turn = turn.unwrap_or_else(failed);
        if let Some(next) = turn.next.clone() {
            board.next = next;
            lock(queue).push_back(board);
        }
        let _ = send.send(Event::Compiled(Box::new(turn)));
    }
}

impl Board {
    /// One compilation.
    fn turn(&mut self, target: &str, launch: &Launch<'_>, started: &Started) -> Result<Turn> {
        let process = match &mut self.process {
            Some(process) => process,
            none => {
                let process = Process::start(target, launch)?;
                lock(started).push(process.child.clone());
                none.insert(process)
            }
        };
        // A process that has ended cannot read; its log has the reason.
        let _ = process.input.write_all(b"\n").and_then(|()| process.input.flush());
        let mut line = String::new();
        while process.output.read_line(&mut line).unwrap_or(0) > 0 {
            if let Some(turn) = Turn::from_line(&line) {
                return Ok(turn);
            }
            line.clear();
        }
        match self.process.take() {
            Some(process) => process.reason(),
            None => refuse!("the process for the compiler has ended"),
        }
    }
}

impl Process {
    fn start(target: &str, launch: &Launch<'_>) -> Result<Process> {
        let failed = |error| PlanError::System("cannot start a process for the compiler".into(), error);
        let mut command = launch(target).map_err(failed)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the plan, which ends its processes itself.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(failed)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(mut errors)) = pipes else { refuse!("a process without pipes") };
        let log = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = errors.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Process { child: Arc::new(Mutex::new(child)), input, output: BufReader::new(output), log })
    }

    /// Why a process ended without a row.
    fn reason(self) -> Result<Turn> {
        drop(self.input);
        let status = lock(&self.child)
            .wait()
            .map_err(|error| PlanError::System("cannot wait for the process of the compiler".into(), error))?;
        let log = self.log.join().unwrap_or_default();
        refuse!("the compiler ended with {status}: {}", reason(&log))
    }
}

/// The sentence in what a compiler wrote before it gave up, without the prefix of its log.
fn reason(log: &str) -> &str {
    let telling = |line: &&str| line.contains("Check failed") || line.starts_with("octant: ");
    let line = log.lines().find(telling).unwrap_or("it did not report why");
    let line = line.split_once("] ").map_or(line, |(_, message)| message);
    line.strip_prefix("octant: ").unwrap_or(line)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compilers_log_lines_become_a_sentence() {
        let log = "I1116 18:36:31.123456 1234 init.cc:12] starting\n\
                   F1116 18:36:32.654321 1234 layout.cc:99] Check failed: rank < 7 a shape of seven axes\n";
        assert_eq!(reason(log), "Check failed: rank < 7 a shape of seven axes");
        assert_eq!(reason("octant: no room on the disk\n"), "no room on the disk");
        assert_eq!(reason("W1116 18:36:31.123456 1234 init.cc:12] nothing of interest\n"), "it did not report why");
    }
}
