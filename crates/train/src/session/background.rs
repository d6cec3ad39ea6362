//! What a session's compiler does while it trains.

use super::{Compiler, Session, UploadedBatch, Usage};
use crate::TrainError;

impl Session {
    /// What was compiled since the last call; an error of the compiler shows here even if the program is not needed yet.
    pub(crate) fn newly_compiled(&mut self) -> Result<Vec<Usage>, TrainError> {
        let mut compiled = Vec::new();
        let forms = self.programs.forms.iter_mut().map(|form| &mut form.train);
        for program in forms.chain([&mut self.programs.evaluation]) {
            if program.is_ready()? && program.report_once() {
                compiled.push(program.usage());
            }
        }
        Ok(compiled)
    }

    /// Begins to compile what is only watched, after everything else.
    pub(crate) fn begin_to_compile_watched(&mut self, compiler: &Compiler) -> Result<(), TrainError> {
        let samples = self.samples.as_mut().map(|samples| &mut samples.program);
        let gradients = self.gradients.as_mut().map(|(program, _)| program);
        samples.into_iter().chain(gradients).try_for_each(|program| program.begin(compiler))
    }

    /// Whether an evaluation and its samples need not wait for the compiler.
    pub(crate) fn can_evaluate(&mut self) -> Result<bool, TrainError> {
        let samples = self.samples.as_mut().map(|samples| samples.program.is_ready()).transpose()?;
        Ok(self.programs.evaluation.is_ready()? && samples != Some(false))
    }

    /// The program that a step on this batch would have to wait for.
    pub(crate) fn missing_for(&mut self, batch: &UploadedBatch) -> Result<Option<&str>, TrainError> {
        let program = &mut self.programs.forms[batch.form].train;
        Ok(if program.is_ready()? { None } else { Some(program.name()) })
    }

    /// Waits until a step on this batch can run.
    pub(crate) fn wait_for_form(&mut self, batch: &UploadedBatch) -> Result<(), TrainError> {
        self.programs.forms[batch.form].train.wait().map(drop)
    }

    /// Waits until an evaluation can run.
    pub(crate) fn wait_for_evaluation(&mut self) -> Result<(), TrainError> {
        self.programs.evaluation.wait().map(drop)
    }

    /// Waits for all programs that were begun.
    pub(crate) fn wait_for_programs(&mut self) -> Result<(), TrainError> {
        self.programs.wait()
    }
}
