//! Programs that are compiled beside each other, and beside the training that does not need them yet.

use crate::TrainError;
use crate::memory::Needs;
use octant_runtime::{Backend, Buffer, CompileOptions, Cost, Executable, MemoryPlan, Program};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};

type Compiled = Result<Box<dyn Executable>, TrainError>;
type Job = Box<dyn FnOnce() + Send>;

/// Compiles what is queued, first come first served, on as many threads as its backend compiles programs at a time. When it is
/// dropped, what has not begun is forgotten; a compiler that has begun cannot be interrupted, and nobody waits for it.
pub(crate) struct Compiler {
    threads: usize,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that take from it.
    threads: usize,
}

impl Compiler {
    pub fn of(backend: &dyn Backend) -> Compiler {
        Compiler { threads: backend.concurrent_compilations(), queue: Arc::default() }
    }

    fn queue(&self, job: Job) {
        let mut queue = lock(&self.queue);
        queue.jobs.push_back(job);
        if queue.threads == self.threads {
            return;
        }
        queue.threads += 1;
        let shared = self.queue.clone();
        let started = std::thread::Builder::new().name("compiler".into()).spawn(move || work(&shared));
        drop(queue);
        if started.is_err() {
            // Without another thread, this one does all of it.
            work(&self.queue);
        }
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        lock(&self.queue).jobs.clear();
    }
}

fn work(queue: &Mutex<Queue>) {
    loop {
        let mut queue = lock(queue);
        let Some(job) = queue.jobs.pop_front() else {
            queue.threads -= 1;
            return;
        };
        drop(queue);
        job();
    }
}

fn lock(queue: &Mutex<Queue>) -> std::sync::MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of a session's programs, from its trace to its executable.
pub(crate) struct SessionProgram {
    name: String,
    state: State,
    executions: u64,
    /// That it was compiled has been reported.
    is_reported: bool,
}

enum State {
    /// Nobody has needed it yet.
    Traced(Box<dyn FnOnce() -> Compiled + Send>),
    Compiling(Receiver<Compiled>),
    Ready(Box<dyn Executable>),
    /// Its error was returned.
    Failed,
}

impl SessionProgram {
    /// A program that is compiled when it is first needed: minutes on a large network, and perhaps never.
    pub fn new(backend: &Arc<dyn Backend>, program: Program, options: &CompileOptions) -> SessionProgram {
        let (backend, options, name) = (backend.clone(), options.clone(), program.name.clone());
        SessionProgram::traced(name, move || Ok(backend.compile(&program, &options)?))
    }

    /// A learning step, whose error says what would fit.
    pub fn learning(
        backend: &Arc<dyn Backend>,
        program: Program,
        needs: Needs,
        options: &CompileOptions,
    ) -> SessionProgram {
        let (backend, options, name) = (backend.clone(), options.clone(), program.name.clone());
        SessionProgram::traced(name, move || needs.compile(&*backend, &program, &options))
    }

    fn traced(name: String, compile: impl FnOnce() -> Compiled + Send + 'static) -> SessionProgram {
        SessionProgram { name, state: State::Traced(Box::new(compile)), executions: 0, is_reported: false }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins to compile it in the background; now, where its backend compiles nothing there.
    pub fn begin(&mut self, compiler: &Compiler) -> Result<(), TrainError> {
        if compiler.threads == 0 {
            return self.wait().map(drop);
        }
        self.state = match std::mem::replace(&mut self.state, State::Failed) {
            State::Traced(compile) => {
                let (sender, receiver) = channel();
                // The session may be gone by then.
                compiler.queue(Box::new(move || drop(sender.send(compile()))));
                State::Compiling(receiver)
            }
            begun => begun,
        };
        Ok(())
    }

    /// Whether it can run; the compiler's error, once.
    pub fn is_ready(&mut self) -> Result<bool, TrainError> {
        if let State::Compiling(receiver) = &self.state {
            match receiver.try_recv() {
                Ok(compiled) => self.end(compiled)?,
                Err(TryRecvError::Empty) => return Ok(false),
                Err(TryRecvError::Disconnected) => self.end(Err(self.lost()))?,
            }
        }
        Ok(matches!(self.state, State::Ready(_)))
    }

    /// Whether it is being compiled, or was when [`is_ready`](SessionProgram::is_ready) last looked.
    pub fn is_compiling(&self) -> bool {
        matches!(self.state, State::Compiling(_))
    }

    /// Waits for the compiler; compiles it here if nobody has begun to.
    pub fn wait(&mut self) -> Result<&dyn Executable, TrainError> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Traced(compile) => self.end(compile())?,
            State::Compiling(receiver) => self.end(receiver.recv().unwrap_or_else(|_| Err(self.lost())))?,
            ended => self.state = ended,
        }
        self.executable().ok_or_else(|| self.lost())
    }

    /// Runs it, as soon as it can.
    pub fn execute(&mut self, inputs: &[Buffer]) -> Result<Vec<Buffer>, TrainError> {
        let outputs = self.wait()?.execute(inputs).map_err(super::changed_shape)?;
        self.executions += 1;
        Ok(outputs)
    }

    /// Whether this is the first call.
    pub fn report_once(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }

    /// What was run so far does not count.
    pub fn forget_executions(&mut self) {
        self.executions = 0;
    }

    pub fn executable(&self) -> Option<&dyn Executable> {
        match &self.state {
            State::Ready(executable) => Some(&**executable),
            State::Traced(_) | State::Compiling(_) | State::Failed => None,
        }
    }

    /// The memory of a run on each device, once it is compiled.
    pub fn memory(&self) -> Option<MemoryPlan> {
        self.executable().map(|executable| executable.memory())
    }

    pub fn usage(&self) -> Usage {
        let compiled = self.executable().map(|executable| executable.cost());
        Usage { program: self.name.clone(), compiled, executions: self.executions }
    }

    fn end(&mut self, compiled: Compiled) -> Result<(), TrainError> {
        self.state = State::Ready(compiled?);
        Ok(())
    }

    fn lost(&self) -> TrainError {
        TrainError::Data(format!("the {} could not be compiled: its compiler ended without a result", self.name))
    }
}

/// What became of one of a session's programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// The program's name.
    pub program: String,
    /// How long it took until it could run; none if it was never needed.
    pub compiled: Option<Cost>,
    /// How often it was run.
    pub executions: u64,
}
