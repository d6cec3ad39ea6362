//! One process per board, several at work at a time, each for one compilation.

use super::board::failed_row;
use super::table::PlanTable;
use super::turns::Answer;
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Messages to the printing thread.
enum Event {
    /// A board's compiler is at work on this.
    Began(usize, String),
    Answered(usize, Answer),
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
    /// Collects what the compiler has to say, so that it never reaches the user as it is.
    complaints: std::thread::JoinHandle<String>,
}

type Started = Mutex<Vec<Arc<Mutex<Child>>>>;

/// Plans all targets and fills the table; false if somebody said stop before the end.
pub(super) fn plan(targets: &[String], stop: &AtomicBool, table: &mut PlanTable) -> bool {
    const GLANCE: Duration = Duration::from_millis(200);
    let boards = (0..targets.len()).map(|index| Board { index, next: "training step".into(), process: None });
    // First come, first served: every board gets its first turn before any gets its second.
    let queue: Mutex<VecDeque<Board>> = Mutex::new(boards.collect());
    let started: Started = Mutex::default();
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get()).min(targets.len());
    std::thread::scope(|scope| {
        let (send, events) = mpsc::channel();
        for _ in 0..workers {
            let (send, queue, started) = (send.clone(), &queue, &started);
            scope.spawn(move || work(targets, queue, started, stop, &send));
        }
        drop(send);
        loop {
            match events.recv_timeout(GLANCE) {
                Ok(Event::Began(index, what)) => table.began(&targets[index], what),
                Ok(Event::Answered(index, answer)) => table.answered(&targets[index], answer),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return !stop.load(Ordering::Relaxed),
            }
            if stop.load(Ordering::Relaxed) {
                for child in lock(&started).iter() {
                    let _ = lock(child).kill();
                }
            }
            table.draw();
        }
    })
}

fn work(
    targets: &[String],
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
        let answer = board.turn(target, started);
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let failed =
            |error: anyhow::Error| Answer { row: failed_row(target, &format!("{error:#}")), next: None, left: 0 };
        let answer = answer.unwrap_or_else(failed);
        if let Some(next) = answer.next.clone() {
            board.next = next;
            lock(queue).push_back(board);
        }
        let _ = send.send(Event::Answered(board_index(&answer, targets), answer));
    }
}

fn board_index(answer: &Answer, targets: &[String]) -> usize {
    let target = answer.row["target"].as_str().unwrap_or_default();
    targets.iter().position(|known| known == target).unwrap_or(0)
}

impl Board {
    /// One compilation.
    fn turn(&mut self, target: &str, started: &Started) -> Result<Answer> {
        if self.process.is_none() {
            let process = Process::start(target)?;
            lock(started).push(process.child.clone());
            self.process = Some(process);
        }
        let process = self.process.as_mut().context("a process was just started")?;
        // A process that is gone cannot read; its output says why.
        let _ = process.input.write_all(b"\n").and_then(|()| process.input.flush());
        let mut line = String::new();
        while process.output.read_line(&mut line).unwrap_or(0) > 0 {
            if let Some(answer) = Answer::from_line(&line) {
                return Ok(answer);
            }
            line.clear();
        }
        match self.process.take() {
            Some(process) => process.reason(),
            None => bail!("the process for the compiler is gone"),
        }
    }
}

impl Process {
    /// This command again, for one target.
    fn start(target: &str) -> Result<Process> {
        let program = std::env::current_exe().context("cannot find this program to start it again")?;
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1)).args(["--here", target]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the command, which ends its processes itself.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().context("cannot start a process for the compiler")?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(mut errors)) = pipes else { bail!("a process without pipes") };
        let complaints = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = errors.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Process { child: Arc::new(Mutex::new(child)), input, output: BufReader::new(output), complaints })
    }

    /// Why a process ended without an answer.
    fn reason(self) -> Result<Answer> {
        drop(self.input);
        let status = lock(&self.child).wait().context("the process for the compiler cannot be waited for")?;
        let complaints = self.complaints.join().unwrap_or_default();
        bail!("the compiler ended with {status}: {}", reason(&complaints))
    }
}

/// The sentence in what a compiler wrote before it gave up, without the prefix of its log.
fn reason(complaints: &str) -> &str {
    let telling = |line: &&str| line.contains("Check failed") || line.starts_with("octant: ");
    let line = complaints.lines().find(telling).unwrap_or("it did not say why");
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
        assert_eq!(reason("W1116 18:36:31.123456 1234 init.cc:12] nothing of interest\n"), "it did not say why");
    }
}
