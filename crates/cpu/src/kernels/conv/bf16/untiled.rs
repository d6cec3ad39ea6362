//! Where there are no tile registers: a plan for them that never exists.

use super::super::{ConvGeometry, Finished, Weights};
use crate::kernels::Machine;
use crate::kernels::bf16::SharedOutput;
use half::bf16;

#[derive(Debug, Clone)]
pub(in crate::kernels::conv) enum TiledPlan {}

impl TiledPlan {
    pub fn new(_: &ConvGeometry) -> Option<TiledPlan> {
        None
    }

    pub fn packed_len(&self) -> usize {
        match *self {}
    }

    pub fn pack(&self, _: &Machine, _: Weights<'_, bf16>, _: &mut [u16]) {
        match *self {}
    }

    pub fn with_packed(&self, _: &Machine, _: Weights<'_, bf16>, _: impl FnOnce(&[u16])) {
        match *self {}
    }

    pub fn run(&self, _: &Machine, _: &[bf16], _: &[u16], _: SharedOutput, _: Option<&Finished<'_>>) {
        match *self {}
    }
}
