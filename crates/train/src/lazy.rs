//! Programs that wait until they are needed.

use octant_runtime::{Backend, Buffer, CompileOptions, Cost, Executable, Program, Result};

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

/// A program compiled when it is first needed: minutes on a large network, and perhaps never.
pub(crate) struct Lazy {
    program: Program,
    options: CompileOptions,
    executable: Option<Box<dyn Executable>>,
    executions: u64,
}

impl Lazy {
    pub fn new(program: Program, options: &CompileOptions) -> Lazy {
        Lazy { program, options: options.clone(), executable: None, executions: 0 }
    }

    /// Runs the program, after compiling it if this is the first time.
    pub fn execute(&mut self, backend: &dyn Backend, inputs: &[Buffer]) -> Result<Vec<Buffer>> {
        let executable = match self.executable.take() {
            Some(executable) => executable,
            None => backend.compile(&self.program, &self.options)?,
        };
        self.executions += 1;
        self.executable.insert(executable).execute(inputs)
    }

    /// What was run so far does not count.
    pub fn forget(&mut self) {
        self.executions = 0;
    }

    pub fn usage(&self) -> Usage {
        let compiled = self.executable.as_ref().map(|executable| executable.cost());
        Usage { program: self.program.name.clone(), compiled, executions: self.executions }
    }
}
