//! Running cases on a backend.

use crate::{Case, Problem, Tolerance, behavior, cases, random};
use octant_runtime::{Backend, CompileOptions, HostTensor, Mesh, Program, RuntimeError, Shape, Sharding};
use octant_tensor::DType;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Cases that a backend does not support. The suite verifies that it returns an error instead of wrong results.
#[derive(Debug, Clone, Copy)]
pub struct Exception {
    /// The beginning of the names of the cases, such as `dot/u64`.
    pub cases: &'static str,
    /// Why the backend does not do it.
    pub reason: &'static str,
}

/// Cases that a backend computes, but less exactly than the suite requires.
#[derive(Debug, Clone, Copy)]
pub struct Shortfall {
    /// The name of the case.
    pub case: &'static str,
    /// The type of the outputs that are concerned.
    pub dtype: DType,
    /// What they may be off by instead.
    pub tolerance: Tolerance,
    /// Why.
    pub reason: &'static str,
}

impl Shortfall {
    fn applied_to(&self, case: &Case) -> Case {
        let shapes = case.graph.output_shapes().into_iter().enumerate();
        let tolerance = |(output, shape): (usize, Shape)| match shape.dtype() == self.dtype {
            true => self.tolerance,
            false => case.tolerance(output),
        };
        Case { tolerances: shapes.map(tolerance).collect(), ..case.clone() }
    }
}

/// Where XLA's compiler for NVIDIA GPUs falls short.
pub const CUDA_SHORTFALLS: &[Shortfall] = &[Shortfall {
    case: "binary/div/f32",
    dtype: DType::F32,
    tolerance: Tolerance { roundings: 2.0, scale: 0.0, terms: 0.0 },
    reason: "XLA divides by div.full.f32, which may be 2 units in the last place off",
}];

/// A backend, what it may refuse, and where it may be less exact.
pub struct Suite {
    backend: Arc<dyn Backend>,
    exceptions: Vec<Exception>,
    shortfalls: &'static [Shortfall],
    random_graphs: u32,
}

impl Suite {
    /// The suite for a backend that refuses nothing.
    pub fn new(backend: impl Backend + 'static) -> Suite {
        Suite::shared(backend.shared())
    }

    /// The same for a backend that was chosen at run time.
    pub fn shared(backend: Arc<dyn Backend>) -> Suite {
        Suite { backend, exceptions: Vec::new(), shortfalls: &[], random_graphs: 3000 }
    }

    /// Adds what the backend does not do.
    pub fn with_exceptions(mut self, exceptions: &[Exception]) -> Suite {
        self.exceptions.extend_from_slice(exceptions);
        self
    }

    /// Allows a backend to be less exact in some cases.
    pub fn with_shortfalls(mut self, shortfalls: &'static [Shortfall]) -> Suite {
        self.shortfalls = shortfalls;
        self
    }

    /// Tries that many randomly generated graphs; for backends that compile slowly.
    pub fn with_random_graphs(mut self, count: u32) -> Suite {
        self.random_graphs = count;
        self
    }

    /// The backend under test.
    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    /// Runs everything.
    pub fn run(&self) -> Report {
        let groups = cases::GROUPS.iter().map(|(name, _)| self.run_group(name));
        let reports = groups.chain([self.run_behavior(), self.run_random()]);
        reports.fold(Report::default(), Report::and)
    }

    /// Runs the groups of these names, or everything where none is named, and reports each as soon as it is over.
    pub fn run_each(&self, wanted: &[String], each: &mut dyn FnMut(&str, Report)) {
        let is_wanted = |group: &str| wanted.is_empty() || wanted.iter().any(|name| name == group);
        for (group, _) in cases::GROUPS.iter().filter(|(group, _)| is_wanted(group)) {
            each(group, self.run_group(group));
        }
        if wanted.is_empty() {
            each("behavior", self.run_behavior());
            each("random graphs", self.run_random());
        }
    }

    /// Runs the cases of one group.
    pub fn run_group(&self, group: &str) -> Report {
        Report::of(cases::group(group), |case| (case.name.clone(), self.run_case(&case)))
    }

    /// Checks donation, repeated use and errors.
    pub fn run_behavior(&self) -> Report {
        Report::of(behavior::CHECKS.to_vec(), |(name, check)| {
            let name = format!("behavior/{name}");
            let outcome = self.allowing(&name, check(self.backend()));
            (name, outcome)
        })
    }

    /// Compares randomly generated graphs; a failure is shrunk to a small one.
    pub fn run_random(&self) -> Report {
        let start = Instant::now();
        let (passed, failures) = match random::search(self.random_graphs, |case| self.run_case(case)) {
            Ok(()) => (self.random_graphs as usize, Vec::new()),
            Err(problem) => (0, vec![("random/graphs".to_string(), problem)]),
        };
        Report { passed, failures, time: start.elapsed() }
    }

    /// Runs one case; the error is a sentence.
    pub fn run_case(&self, case: &Case) -> Result<(), String> {
        let shortfall = self.shortfalls.iter().find(|shortfall| shortfall.case == case.name);
        let check = |given: Vec<HostTensor>| shortfall.map_or(case.clone(), |it| it.applied_to(case)).check(&given);
        let outcome = run_on(self.backend(), case).and_then(|given| check(given).map_err(Problem::Wrong));
        self.allowing(&case.name, outcome)
    }

    /// What is excepted must be refused, everything else must be right.
    fn allowing(&self, name: &str, outcome: Result<(), Problem>) -> Result<(), String> {
        let exception = self.exceptions.iter().find(|exception| name.starts_with(exception.cases));
        match (exception, outcome) {
            (None, Ok(())) | (Some(_), Err(Problem::Runtime(RuntimeError::Unsupported { .. }))) => Ok(()),
            (None, Err(problem)) => Err(problem.to_string()),
            (Some(exception), Ok(())) => {
                Err(format!("works, but is listed as an exception ({}); remove it from the list", exception.reason))
            }
            (Some(exception), Err(problem)) => Err(format!(
                "is listed as an exception ({}), so the backend must report that it is not supported; instead: {problem}",
                exception.reason
            )),
        }
    }
}

/// Compiles and runs one case.
pub fn run_on(backend: &dyn Backend, case: &Case) -> Result<Vec<HostTensor>, Problem> {
    let program = Program::new(case.name.clone(), case.graph.clone());
    Ok(run_program(backend, &program, &case.inputs)?)
}

/// Compiles a program, runs it once on one device and copies its outputs to the host.
pub(crate) fn run_program(
    backend: &dyn Backend,
    program: &Program,
    inputs: &[HostTensor],
) -> Result<Vec<HostTensor>, RuntimeError> {
    let executable = backend.compile(program, &CompileOptions::default())?;
    let upload = |input: &HostTensor| backend.upload(input, &Mesh::single(), &Sharding::REPLICATED);
    let buffers = inputs.iter().map(upload).collect::<Result<Vec<_>, _>>()?;
    executable.execute(&buffers)?.iter().map(|output| output.to_host()).collect()
}

/// What came of running cases.
#[derive(Debug, Default)]
pub struct Report {
    /// How many cases were right.
    pub passed: usize,
    /// The names of the others and what is wrong with them.
    pub failures: Vec<(String, String)>,
    /// How long it took.
    pub time: Duration,
}

impl Report {
    fn of<T>(cases: Vec<T>, run: impl Fn(T) -> (String, Result<(), String>)) -> Report {
        let start = Instant::now();
        let mut report = Report::default();
        for case in cases {
            match run(case) {
                (_, Ok(())) => report.passed += 1,
                (name, Err(problem)) => report.failures.push((name, problem)),
            }
        }
        report.time = start.elapsed();
        report
    }

    /// What came of checks that were run one by one.
    pub fn of_checks(checks: impl IntoIterator<Item = (String, Result<(), String>)>, time: Duration) -> Report {
        let mut report = Report { time, ..Report::default() };
        for (name, outcome) in checks {
            match outcome {
                Ok(()) => report.passed += 1,
                Err(problem) => report.failures.push((name, problem)),
            }
        }
        report
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: Report) -> Report {
        self.passed += other.passed;
        self.failures.extend(other.failures);
        self.time += other.time;
        self
    }

    /// Panics with the list of failures if there are any: the end of a test.
    pub fn assert_passed(&self) {
        assert!(self.failures.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        const SHOWN: usize = 40;
        write!(f, "{} passed, {} failed in {:.1} s", self.passed, self.failures.len(), self.time.as_secs_f64())?;
        for (name, problem) in self.failures.iter().take(SHOWN) {
            write!(f, "\n  {name}: {problem}")?;
        }
        match self.failures.len().checked_sub(SHOWN) {
            Some(more @ 1..) => write!(f, "\n  … and {more} more"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortfall_concerns_outputs_of_one_type() {
        let [division] = CUDA_SHORTFALLS else { panic!("one shortfall is known") };
        let case = cases::group("binary").into_iter().find(|case| case.name == division.case);
        let case = case.expect("the case is in its group");
        assert_eq!(division.applied_to(&case).tolerance(0), division.tolerance);
        let elsewhere = Shortfall { dtype: DType::F16, ..*division };
        assert_eq!(elsewhere.applied_to(&case).tolerance(0), case.tolerance(0));
        assert_ne!(division.tolerance, case.tolerance(0));
    }
}
