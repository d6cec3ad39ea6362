use super::*;
use crate::kernels::conv::descriptor::tests::plain;

const GPU: GpuFacts = GpuFacts::H200;

#[test]
fn the_warps_of_a_block_own_different_channels_as_far_as_there_are_any() {
    let grid = |inputs, outputs| {
        let grid = <TensorCoreWeightGradient as ConvKernel>::grid(&plain(3, 32, inputs, outputs), &[0; 4], 7, &GPU);
        (grid.blocks, grid.threads[1])
    };
    assert_eq!(grid(16, 16), ([1, 7, 1], 4));
    assert_eq!(grid(48, 16), ([1, 7, 1], 3));
    assert_eq!(grid(32, 32), ([1, 7, 1], 4));
    assert_eq!(grid(96, 32), ([3, 7, 1], 4));
}

#[test]
fn images_are_divided_so_that_no_multiprocessor_waits_long() {
    let grid = |inputs, outputs, size| {
        <TensorCoreForward as ConvKernel>::grid(&plain(3, 32, inputs, outputs), &[32, size, size, outputs], 1, &GPU)
            .blocks
    };
    assert_eq!(grid(16, 16, 256), [128, 1, 8]);
    assert_eq!(grid(16, 48, 256), [64, 1, 8]);
    assert_eq!(grid(48, 16, 256), [64, 1, 16]);
    assert_eq!(grid(32, 32, 128), [32, 1, 8]);
    assert_eq!(grid(32, 64, 64), [16, 2, 8]);
}

/// What every GPU that runs these kernels gives a block.
const SHARED: u32 = 99 << 10;

#[test]
fn weights_and_rows_fit_into_shared_memory() {
    let channels = || (1..=6).map(|blocks| BLOCK * blocks);
    let all = channels().flat_map(|inputs| channels().map(move |outputs| (inputs, outputs)));
    for (inputs, outputs) in all.filter(|&(inputs, outputs)| inputs.min(outputs) <= 64) {
        let descriptor = plain(3, 32, inputs, outputs);
        let beside = ConvDescriptor { pointwise: Pointwise::Beside, ..descriptor };
        for shared in [descriptor, beside].map(|descriptor| <TensorCoreForward as ConvKernel>::shared(&descriptor)) {
            assert!(shared <= SHARED, "{inputs}→{outputs}: {shared}");
            // A block takes a kilobyte for itself.
            assert!(ForwardTile::of(inputs, outputs).resident as u32 * (shared + 1024) <= 227 << 10);
        }
    }
    for (inputs, outputs) in [(16, 16), (16, 32), (48, 16), (32, 32), (48, 32), (112, 16), (256, 256)] {
        let descriptor = plain(3, 32, inputs, outputs);
        let beside = ConvDescriptor { pointwise: Pointwise::Beside, ..descriptor };
        let [shared, beside] =
            [descriptor, beside].map(|descriptor| <TensorCoreWeightGradient as ConvKernel>::shared(&descriptor));
        assert!(shared <= SHARED, "{inputs}→{outputs}: {shared}");
        let tile = GradientTile::of(inputs, outputs);
        assert!(tile.shares > 2 || beside <= SHARED, "{inputs}→{outputs}: {beside}");
        let resident = tile.resident() as u32;
        assert!(resident * (shared + 1024) <= 227 << 10, "{inputs}→{outputs}: {shared}");
        assert!(tile.shares > 2 || resident * (beside + 1024) <= 227 << 10, "{inputs}→{outputs}: {beside}");
    }
}

#[test]
fn moments_come_in_parts_that_warps_make() {
    let check = |inputs, outputs, width, parts| {
        let descriptor = ConvDescriptor { moments: true, ..plain(3, 32, inputs, outputs) };
        <TensorCoreForward as ConvKernel>::check(&descriptor, &[32, 256, width, outputs], parts).is_ok()
    };
    assert!(check(16, 16, 256, 128) && check(32, 32, 131, 40) && check(48, 16, 250, 8));
    assert!(!check(16, 16, 256, 8) && !check(32, 32, 131, 32));
}
