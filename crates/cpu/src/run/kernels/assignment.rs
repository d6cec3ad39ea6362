//! Runs assignments by shortest augmenting paths, one element of the batch after another.

use super::super::memory::Memory;
use super::Arguments;
use octant_graph::AssignmentKernel;

pub(super) fn run(kernel: &AssignmentKernel, arguments: &Arguments, memory: &Memory) {
    let [(costs, of_costs), (exists, of_exists)] = &arguments.inputs[..] else {
        unreachable!("an assignment has costs and flags")
    };
    let (found, of_found) = &arguments.outputs[0];
    // SAFETY: the operands are stored with these types and numbers of elements, and no step writes them now; this step owns its
    // result.
    unsafe {
        let (costs, exists) = (memory.read(*costs, of_costs.elements()), memory.read(*exists, of_exists.elements()));
        kernel.run(costs, exists, memory.write(*found, of_found.elements()));
    }
}
