//! The ways in which the devices of a machine can divide a step, compared by our own estimates; one is recommended.
//!
//! The batch alone is the simplest, and exchanges the least. Dividing the parameters and the optimizer's state (`fsdp`) needs less
//! memory on each device, dividing the height of images (`spatial`) less of it for each image; both exchange more.

use crate::Result;
use crate::communication::{self, Exchanged, Network};
use crate::steps::Steps;
use octant_graph::{Node, Op};
use octant_pjrt::estimate::Estimate;
use octant_runtime::Program;
use octant_train::step::StepOptions;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Strips of fewer rows would be borders mostly.
const LEAST_ROWS: usize = 32;
/// A way that is faster by less is not worth the more that it exchanges.
const WORTH: f64 = 0.95;

/// One way of dividing a step among the devices of a machine, as we estimate it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedSharding {
    /// Devices that share the parameters and the optimizer's state.
    pub fsdp: usize,
    /// Devices that divide the height of every image.
    pub spatial: usize,
    /// Bytes that a training step needs on each device.
    pub hbm_bytes_per_core: u64,
    /// Whether they are there.
    pub fits: bool,
    /// Bytes that every device receives of the others in a step, by XLA's names of the operations.
    pub exchanged_bytes_per_step: Exchanged,
    /// Seconds of a step.
    pub step_seconds: f64,
    /// The fastest that fits.
    pub recommended: bool,
}

impl fmt::Display for PlannedSharding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(&match (self.fsdp, self.spatial) {
            (1, 1) => "batch alone".to_string(),
            (fsdp, 1) => format!("fsdp = {fsdp}"),
            (1, spatial) => format!("spatial = {spatial}"),
            (fsdp, spatial) => format!("fsdp = {fsdp}, spatial = {spatial}"),
        })
    }
}

/// What the ways are compared on.
pub(crate) struct Ground<'a> {
    /// The recipe's own way.
    pub step: &'a StepOptions,
    pub devices: usize,
    /// Devices with fast links between them.
    pub group: usize,
    pub network: Network,
    /// Bytes of every device.
    pub memory: u64,
    /// How much longer a step takes than its estimate.
    pub factor: f64,
    /// Images per step over all devices.
    pub batch: usize,
}

/// The ways that make sense; none where one device works alone. `one` are the steps of one device, and `of` estimates them.
pub(crate) fn compared(
    ground: &Ground,
    one: &Steps,
    of: &dyn Fn(&Program) -> Estimate,
) -> Result<Vec<PlannedSharding>> {
    if ground.devices == 1 {
        return Ok(Vec::new());
    }
    let own = ground.step;
    let mut ways = vec![(1, 1), (ground.group, 1)];
    let strips = strips(ground, one)?;
    if strips > 1 {
        ways.push((1, strips));
        ways.push((ground.group / strips, strips));
    }
    ways.push((own.fsdp, own.spatial));
    let mut compared: Vec<PlannedSharding> = Vec::new();
    for (fsdp, spatial) in ways {
        let is_known = compared.iter().any(|known| (known.fsdp, known.spatial) == (fsdp, spatial));
        if !is_known {
            compared.extend(estimated(ground, one, of, fsdp, spatial)?);
        }
    }
    recommend(&mut compared);
    Ok(compared)
}

/// The first that fits, unless another is faster by more than a little.
fn recommend(compared: &mut [PlannedSharding]) {
    let mut best: Option<usize> = None;
    for (index, way) in compared.iter().enumerate().filter(|(_, way)| way.fits) {
        if best.is_none_or(|best| way.step_seconds < WORTH * compared[best].step_seconds) {
            best = Some(index);
        }
    }
    best.into_iter().for_each(|best| compared[best].recommended = true);
}

fn steps_of(ground: &Ground, one: &Steps, fsdp: usize, spatial: usize) -> Result<Steps> {
    one.divided(ground.devices, StepOptions { fsdp, spatial, ..ground.step.clone() })
}

/// Into how many strips the images can be cut, where convolutions look at them: 1 where that is not worth it.
fn strips(ground: &Ground, one: &Steps) -> Result<usize> {
    let program = steps_of(ground, one, 1, 1)?.training(ground.devices)?;
    let height = image_height(&program).unwrap_or(0);
    let is_even = |strips: &usize| ground.group.is_multiple_of(*strips) && height.is_multiple_of(*strips);
    let strips = (2..=ground.group).rev().filter(is_even).find(|strips| height / strips >= LEAST_ROWS);
    Ok(strips.filter(|_| borders(&program, 1, height) > 0).unwrap_or(1))
}

/// The height of the largest images that the program reads.
fn image_height(program: &Program) -> Option<usize> {
    let images = program.graph.input_shapes().into_iter().filter(|shape| shape.rank() == 4 && shape.dims()[3] <= 4);
    images.map(|shape| shape.dims()[1]).max()
}

fn estimated(
    ground: &Ground,
    one: &Steps,
    of: &dyn Fn(&Program) -> Estimate,
    fsdp: usize,
    spatial: usize,
) -> Result<Option<PlannedSharding>> {
    let Ok(steps) = steps_of(ground, one, fsdp, spatial) else { return Ok(None) };
    let Ground { devices, batch, .. } = *ground;
    let program = steps.training(batch.next_multiple_of(devices))?;
    // A device has a strip of so many images; less than one image is a part of the estimate for one.
    let images = batch.div_ceil(devices / spatial) as f64 / spatial as f64;
    let whole = one.training((images.ceil() as usize).max(1))?;
    let (estimate, share) = (of(&whole), images / images.ceil().max(1.0));
    let state: u64 = state_bytes(&whole);
    let activations = estimate.bytes.saturating_sub(state) as f64 * share;
    let bytes = (state + activations as u64).saturating_sub(steps.sharded_bytes()?);
    let mut exchanged = communication::estimated(&program);
    if spatial > 1 {
        let height = image_height(&program).unwrap_or(0);
        // Of the images of a group of devices, all have their strips.
        let bytes = borders(&program, devices / spatial, height);
        *exchanged.entry("collective-permute".into()).or_default() += bytes;
    }
    let step = estimate.seconds * share * ground.factor;
    let step_seconds = step + communication::added(step, ground.network.seconds(&exchanged));
    Ok(Some(PlannedSharding {
        fsdp,
        spatial,
        hbm_bytes_per_core: bytes,
        fits: bytes <= ground.memory,
        exchanged_bytes_per_step: exchanged,
        step_seconds,
        recommended: false,
    }))
}

/// Everything that a step updates in place.
fn state_bytes(program: &Program) -> u64 {
    let shapes = program.graph.input_shapes();
    program.donated.iter().map(|(input, _)| shapes[*input].bytes() as u64).sum()
}

/// Bytes of the rows at the borders of a strip that convolutions read from its neighbors, where the batch is divided among so
/// many groups of devices.
fn borders(program: &Program, groups: usize, height: usize) -> u64 {
    let graph = &program.graph;
    let rows = |node: &Node| -> u64 {
        let (Op::Convolution(conv), [input, kernel], [output]) = (&node.op, &node.inputs[..], &node.outputs[..]) else {
            return 0;
        };
        let (input, kernel, output) = (graph.shape(*input), graph.shape(*kernel), graph.shape(*output));
        let axes = (conv.input.spatial.first(), conv.kernel.spatial.first(), conv.output.spatial.first());
        let (Some(&of_input), Some(&of_kernel), Some(&of_output)) = axes else { return 0 };
        let (rows_there, kernel, output) = (input.dims()[of_input], kernel.dims()[of_kernel], output.dims()[of_output]);
        // The gradient of a kernel has the cotangent where others have the kernel, and the kernel's size as its result.
        let (size, stride) = match kernel > output {
            true => (output, conv.kernel_dilation[0]),
            false => ((kernel - 1) * conv.kernel_dilation[0] + 1, conv.strides[0].max(conv.input_dilation[0])),
        };
        // Windows that do not overlap read no border, and of a vector per image nothing is cut.
        let is_cut = (2..=2 * height).contains(&rows_there);
        if is_cut { (size.saturating_sub(stride) * input.bytes() / rows_there) as u64 } else { 0 }
    };
    graph.nodes().iter().map(rows).sum::<u64>() / groups as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(fsdp: usize, spatial: usize, fits: bool, step_seconds: f64) -> PlannedSharding {
        let (hbm_bytes_per_core, exchanged_bytes_per_step) = (1 << 30, Exchanged::new());
        PlannedSharding {
            fsdp,
            spatial,
            hbm_bytes_per_core,
            fits,
            exchanged_bytes_per_step,
            step_seconds,
            recommended: false,
        }
    }

    fn recommended(mut ways: Vec<PlannedSharding>) -> Option<String> {
        recommend(&mut ways);
        assert!(ways.iter().filter(|way| way.recommended).count() <= 1);
        ways.iter().find(|way| way.recommended).map(|way| way.to_string())
    }

    #[test]
    fn the_simplest_way_that_fits_is_recommended_unless_another_is_faster() {
        let found = recommended(vec![way(1, 1, true, 1.0), way(8, 1, true, 0.97)]);
        assert_eq!(found.as_deref(), Some("batch alone"));
        let found = recommended(vec![way(1, 1, true, 1.0), way(8, 1, true, 1.0), way(1, 4, true, 0.5)]);
        assert_eq!(found.as_deref(), Some("spatial = 4"));
        let found = recommended(vec![way(1, 1, false, 0.1), way(8, 1, false, 0.1), way(2, 4, true, 3.0)]);
        assert_eq!(found.as_deref(), Some("fsdp = 2, spatial = 4"));
        assert_eq!(recommended(vec![way(1, 1, false, 1.0), way(8, 1, false, 1.0)]), None);
    }
}
