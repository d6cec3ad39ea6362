//! Twenty epochs need no more memory than three.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use octant_data::{Glyphs, Loader, LoaderConfig, Pipeline, TransformStep};
use std::sync::Arc;

/// Resident memory of this process in kilobytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn memory_stays_flat_over_twenty_epochs() {
    let mut pipeline = Pipeline::imagenet_train(96);
    pipeline.steps.push(TransformStep::RandAugment { count: 2, magnitude: 9, levels: 31 });
    let config = LoaderConfig { batch_size: 64, workers: 3, ..LoaderConfig::default() };
    let loader = Loader::new(Arc::new(Glyphs::new(512, 1)), Arc::new(pipeline), config).unwrap();
    let mut after_three = 0;
    for epoch in 0..20 {
        assert_eq!(loader.epoch(epoch).map(|batch| batch.unwrap().valid).sum::<usize>(), 512);
        if epoch == 2 {
            after_three = resident();
        }
    }
    let growth = resident().saturating_sub(after_three);
    assert!(growth < 4096, "{growth} kB more after twenty epochs than after three ({after_three} kB)");
}
