//! Every sample read once: what is broken, what is there twice, and the figures of the rest.

use super::Statistics;
use crate::{AnyImage, DataError, Dataset, Sample, Target};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What reading every sample found.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Samples that could not be read: where and why.
    pub corrupt: Vec<(String, String)>,
    /// Samples whose parts do not belong together, such as a mask of another size: where and why.
    pub mismatched: Vec<(String, String)>,
    /// Groups of samples with identical pixels.
    pub duplicates: Vec<Twins>,
    /// Samples whose mask marks nothing.
    pub empty_masks: Vec<String>,
    /// Classes that no sample has.
    pub empty_classes: Vec<String>,
    /// The figures of the samples that could be read.
    pub statistics: Statistics,
}

/// Samples with identical pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twins {
    /// Their numbers in the data set.
    pub samples: Vec<usize>,
    /// Where they come from.
    pub positions: Vec<String>,
    /// Their targets differ: at least one label is wrong.
    pub contradict: bool,
}

impl Survey {
    /// True when nothing has to be repaired. Empty masks and duplicates are worth a look but may be meant.
    pub fn is_sound(&self) -> bool {
        self.corrupt.is_empty() && self.mismatched.is_empty() && !self.duplicates.iter().any(|twins| twins.contradict)
    }
}

/// What is remembered of a sample.
struct Finding {
    index: usize,
    image: u64,
    target: u64,
    empty_mask: bool,
}

/// Reads every sample with `workers` threads (0: one per core). The result does not depend on their number.
pub fn survey(dataset: &dyn Dataset, workers: usize) -> Survey {
    let workers = match workers {
        0 => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
        workers => workers,
    };
    let next = AtomicUsize::new(0);
    let results = Mutex::new((Vec::new(), Vec::new(), Statistics::default()));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let (mut findings, mut corrupt, mut statistics) = (Vec::new(), Vec::new(), Statistics::default());
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= dataset.len() {
                        break;
                    }
                    match dataset.get(index) {
                        Ok(sample) => {
                            statistics.add(&sample);
                            findings.push(finding(index, &sample));
                        }
                        Err(error) => corrupt.push((index, error)),
                    }
                }
                let mut all = results.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                all.0.extend(findings);
                all.1.extend(corrupt);
                all.2.merge(&statistics);
            });
        }
    });
    let (findings, corrupt, statistics) = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    conclude(dataset, findings, corrupt, statistics)
}

fn conclude(
    dataset: &dyn Dataset,
    mut findings: Vec<Finding>,
    mut failed: Vec<(usize, DataError)>,
    statistics: Statistics,
) -> Survey {
    findings.sort_by_key(|finding| finding.index);
    failed.sort_by_key(|(index, _)| *index);
    let (mut corrupt, mut mismatched) = (Vec::new(), Vec::new());
    for (index, error) in failed {
        let list = if matches!(error, DataError::Mismatch { .. }) { &mut mismatched } else { &mut corrupt };
        list.push((dataset.location(index), error.to_string()));
    }
    let mut groups: HashMap<u64, Vec<&Finding>> = HashMap::new();
    findings.iter().for_each(|finding| groups.entry(finding.image).or_default().push(finding));
    let mut groups: Vec<Vec<&Finding>> = groups.into_values().filter(|group| group.len() > 1).collect();
    groups.sort_by_key(|group| group[0].index);
    let twins = |group: &Vec<&Finding>| Twins {
        samples: group.iter().map(|finding| finding.index).collect(),
        positions: group.iter().map(|finding| dataset.location(finding.index)).collect(),
        contradict: group.iter().any(|finding| finding.target != group[0].target),
    };
    let is_used = |class: usize| statistics.classes.contains_key(&(class as u32));
    let names = dataset.class_names().iter().enumerate();
    let has_classes = !statistics.classes.is_empty();
    Survey {
        corrupt,
        mismatched,
        duplicates: groups.iter().map(twins).collect(),
        empty_masks: findings.iter().filter(|f| f.empty_mask).map(|f| dataset.location(f.index)).collect(),
        empty_classes: names.filter(|(class, _)| has_classes && !is_used(*class)).map(|(_, n)| n.clone()).collect(),
        statistics,
    }
}

fn finding(index: usize, sample: &Sample) -> Finding {
    let mut pixels = DefaultHasher::new();
    sample.image.dims().hash(&mut pixels);
    sample.image.bytes().hash(&mut pixels);
    let mut target = DefaultHasher::new();
    let mut empty_mask = false;
    match &sample.target {
        Target::Class(class) => class.hash(&mut target),
        Target::Labels(labels) => labels.hash(&mut target),
        Target::Image(image) => image.values().hash(&mut target),
        Target::Mask(mask) => {
            mask.labels.values().hash(&mut target);
            empty_mask = mask.objects().values().iter().all(|&value| value == 0);
        }
        Target::Values(values) => values.iter().for_each(|value| value.to_bits().hash(&mut target)),
        Target::Boxes(boxes) => boxes.iter().for_each(|object| {
            object.class.hash(&mut target);
            [object.x0, object.y0, object.x1, object.y1].map(f32::to_bits).hash(&mut target);
        }),
    }
    // An image of one color says nothing; without the kind of image many masks' blank images would be "equal".
    if let AnyImage::U8(image) = &sample.image
        && image.values().iter().all(|value| *value == image.values()[0])
    {
        index.hash(&mut pixels);
    }
    Finding { index, image: pixels.finish(), target: target.finish(), empty_mask }
}
