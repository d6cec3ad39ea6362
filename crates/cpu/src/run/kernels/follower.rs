//! Loops that convolutions run over what they have just finished.

use super::super::looping::PreparedLoop;
use super::super::memory::Memory;
use super::norms::Norms;
use crate::plan::LoopStep;
use crate::simd::Simd;

/// A loop over whole pixels of a convolution's result, in its place.
pub(super) enum Follower {
    Norms(Norms, Simd),
    Loop(Box<PreparedLoop>),
}

impl Follower {
    /// The loop after a convolution with so many output channels.
    pub fn new(step: LoopStep, channels: usize, simd: Simd) -> Follower {
        match Norms::recognise(&step, channels) {
            Some(norms) => Follower::Norms(norms, simd),
            None => Follower::Loop(Box::new(PreparedLoop::new(step, simd))),
        }
    }

    /// Runs it over some elements.
    pub fn run_range(&self, memory: &Memory, first: usize, count: usize) {
        match self {
            Follower::Norms(norms, simd) => norms.run_range(*simd, memory, first, count),
            Follower::Loop(looping) => looping.run_range(memory, first, count),
        }
    }
}
