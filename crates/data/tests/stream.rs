//! The stream of samples does not depend on who prepares it, and nothing that goes wrong makes it hang.

#![allow(clippy::unwrap_used)]

use octant_data::{
    AnyImage, Batch, Corrupt, DataError, Dataset, Glyphs, LastBatch, Loader, LoaderConfig, Mix, Position, Sample,
    SampleRng, Target, Targets, Transform,
};
use octant_imaging::Image;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Random noise on top of the image: any slip in the random streams changes the hash.
struct Noise;

impl Transform for Noise {
    fn apply(&self, mut sample: Sample, rng: &mut SampleRng) -> Result<Sample, DataError> {
        if let AnyImage::U8(image) = &mut sample.image {
            image.values_mut().iter_mut().for_each(|value| *value = value.wrapping_add(rng.bits() as u8));
        }
        Ok(sample)
    }
}

fn loader(len: usize, config: LoaderConfig) -> Loader {
    Loader::new(Arc::new(Glyphs::new(len, 4)), Arc::new(Noise), config).unwrap()
}

fn config(workers: usize) -> LoaderConfig {
    LoaderConfig { batch_size: 16, workers, prefetch: 3, seed: 11, last: LastBatch::Pad, ..LoaderConfig::default() }
}

fn hash(batch: &Batch) -> u64 {
    let mut hasher = DefaultHasher::new();
    batch.images.bytes().hash(&mut hasher);
    batch.mask.bytes().hash(&mut hasher);
    batch.indices.hash(&mut hasher);
    if let Targets::Classes(classes) = &batch.targets {
        classes.bytes().hash(&mut hasher);
    }
    hasher.finish()
}

fn hashes(loader: &Loader, from: Position, end: u64) -> Vec<(Position, u64)> {
    loader.stream(from, end).map(|batch| batch.map(|batch| (batch.position, hash(&batch))).unwrap()).collect()
}

#[test]
fn any_number_of_workers_gives_the_same_stream() {
    let reference = hashes(&loader(150, config(1)), Position::default(), 3);
    assert_eq!(reference.len(), 30);
    for workers in [2, 7] {
        assert_eq!(hashes(&loader(150, config(workers)), Position::default(), 3), reference);
    }
    let distinct: std::collections::HashSet<u64> = reference.iter().map(|(_, hash)| *hash).collect();
    assert_eq!(distinct.len(), 30, "every batch of every epoch is different");
}

#[test]
fn resuming_in_the_middle_continues_as_if_nothing_had_happened() {
    let reference = hashes(&loader(150, config(2)), Position::default(), 3);
    let position = Position::new(1, 4);
    let rest = hashes(&loader(150, config(3)), position, 3);
    let start = reference.iter().position(|(at, _)| *at == position).unwrap();
    assert_eq!(rest, reference[start..]);
}

#[test]
fn eight_shards_are_the_batch_of_one_core() {
    let whole: Vec<Batch> = loader(150, config(2)).epoch(0).map(Result::unwrap).collect();
    let shards: Vec<Vec<Batch>> = (0..8)
        .map(|shard| {
            let config = config(2).shard(shard, 8).unwrap();
            loader(150, config).epoch(0).map(Result::unwrap).collect()
        })
        .collect();
    for (number, batch) in whole.iter().enumerate() {
        let indices: Vec<u64> = shards.iter().flat_map(|shard| shard[number].indices.clone()).collect();
        assert_eq!(indices, batch.indices);
        assert_eq!(shards.iter().map(|shard| shard[number].valid).sum::<usize>(), batch.valid);
        // Padding repeats a row of its own shard, so only the rows that count are compared.
        let row = batch.images.bytes().len() / 16;
        let images: Vec<u8> = shards.iter().flat_map(|shard| shard[number].images.bytes().to_vec()).collect();
        for slot in (0..16).filter(|&slot| batch.indices[slot] != u64::MAX) {
            assert_eq!(images[slot * row..][..row], batch.images.bytes()[slot * row..][..row]);
        }
    }
}

#[test]
fn the_last_batch_is_padded_and_masked() {
    let last = loader(150, config(2)).epoch(0).last().unwrap().unwrap();
    assert_eq!((last.valid, last.images.dims()), (6, &[16, 28, 28, 1][..]));
    let mask = last.mask.elements::<f32>().unwrap();
    assert!(mask[..6].iter().all(|&value| value == 1.0) && mask[6..].iter().all(|&value| value == 0.0));
    assert_eq!(last.indices[6..], [u64::MAX; 10]);
}

/// Fails differently for some samples.
struct Faulty(&'static str);

impl Dataset for Faulty {
    fn len(&self) -> usize {
        40
    }
    fn get(&self, index: usize) -> Result<Sample, DataError> {
        match (self.0, index) {
            ("corrupt", 13) => Err(DataError::malformed("13.png", "it is cut off")),
            ("panic", 13) | ("dead", 13) => panic!("sample 13 is evil"),
            _ => {
                let side = if self.0 == "size" && index == 13 { 5 } else { 4 };
                Ok(Sample { image: AnyImage::U8(Image::filled(side, 4, 1, 9)), target: Target::Class(1) })
            }
        }
    }
    fn location(&self, index: usize) -> String {
        // Called while the error is put together, outside of the protection: the thread itself dies.
        assert!(self.0 != "dead", "the worker dies");
        format!("folder/{index}.png")
    }
}

fn faulty(kind: &'static str, corrupt: Corrupt) -> (Loader, Vec<Result<Batch, DataError>>) {
    let config =
        LoaderConfig { batch_size: 8, workers: 3, corrupt, shuffle: false, prefetch: 2, ..LoaderConfig::default() };
    let loader = Loader::new(Arc::new(Faulty(kind)), Arc::new(()), config).unwrap();
    let batches = loader.epoch(0).collect();
    (loader, batches)
}

#[test]
fn a_corrupt_sample_is_fatal_or_skipped_and_named_either_way() {
    let (_, batches) = faulty("corrupt", Corrupt::Fatal);
    assert_eq!(batches.len(), 2);
    let message = batches[1].as_ref().unwrap_err().to_string();
    assert_eq!(message, "sample 13 (folder/13.png): 13.png: it is cut off");

    let (loader, batches) = faulty("corrupt", Corrupt::Skip);
    let valid: Vec<usize> = batches.iter().map(|batch| batch.as_ref().unwrap().valid).collect();
    assert_eq!(valid, [8, 7, 8, 8, 8]);
    assert_eq!(loader.skipped()[0].index, 13);
    assert_eq!((loader.stats().batches, loader.stats().samples), (5, 39));
}

#[test]
fn a_panicking_worker_is_an_error_not_a_hang() {
    let (_, batches) = faulty("panic", Corrupt::Fatal);
    let message = batches[1].as_ref().unwrap_err().to_string();
    assert!(message.contains("folder/13.png") && message.contains("sample 13 is evil"), "{message}");
    let (_, batches) = faulty("panic", Corrupt::Skip);
    assert_eq!(batches.len(), 5);
}

#[test]
fn a_dead_worker_is_an_error_not_a_hang() {
    let (_, batches) = faulty("dead", Corrupt::Skip);
    let message = batches.last().unwrap().as_ref().unwrap_err().to_string();
    assert!(message.contains("worker died"), "{message}");
}

#[test]
fn images_of_another_size_are_refused_with_advice() {
    let (_, batches) = faulty("size", Corrupt::Fatal);
    let message = batches[1].as_ref().unwrap_err().to_string();
    assert!(message.contains("u8[5,4,1]") && message.contains("add a resize or a crop"), "{message}");
}

/// Counts how far preparation runs ahead of a consumer that does not consume.
#[test]
fn a_slow_consumer_stops_the_workers() {
    struct Counting(Glyphs, std::sync::atomic::AtomicUsize);
    impl Dataset for Counting {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn get(&self, index: usize) -> Result<Sample, DataError> {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.0.get(index)
        }
    }
    let set = Arc::new(Counting(Glyphs::new(10_000, 1), Default::default()));
    let loader = Loader::new(set.clone(), Arc::new(()), config(2)).unwrap();
    let mut batches = loader.epoch(0);
    batches.next().unwrap().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let prepared = set.1.load(std::sync::atomic::Ordering::Relaxed);
    assert!((32..=16 * 4).contains(&prepared), "{prepared}");
    drop(batches);
}

#[test]
fn mixed_batches_are_the_same_for_any_number_of_workers() {
    let mixed = |workers: usize, mix: Mix| -> Vec<Batch> {
        let config = LoaderConfig { mix: Some(mix), last: LastBatch::Drop, ..config(workers) };
        loader(150, config).epoch(1).map(Result::unwrap).collect()
    };
    for mix in [Mix { mixup: 0.8, cutmix: 1.0, p: 0.8 }, Mix { mixup: 0.2, ..Mix::default() }] {
        let batches = mixed(1, mix);
        assert_eq!(batches, mixed(5, mix));
        let Targets::Mixed { classes, partners, shares } = &batches[0].targets else { panic!("not mixed") };
        let reversed: Vec<i32> = classes.elements::<i32>().unwrap().iter().rev().copied().collect();
        assert_eq!(partners.elements::<i32>().unwrap(), reversed);
        assert!(shares.elements::<f32>().unwrap().iter().all(|share| (0.0..=1.0).contains(share)));
    }
}
