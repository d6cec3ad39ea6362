//! An epoch by archives: every sample once, processes with archives of their own, the same from anywhere.

#![allow(clippy::unwrap_used)]

use octant_data::decode::DecodeOptions;
use octant_data::readers::{Split, open, write_tfrecord, write_webdataset};
use octant_data::{
    Archives, Batch, DataError, Dataset, Glyphs, LastBatch, Loader, LoaderConfig, Position, Sample, SampleOrder,
    Sampler, pack,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Notes the archives that are read.
struct Noting {
    of: Arc<dyn Dataset>,
    read: Mutex<BTreeSet<PathBuf>>,
}

impl Dataset for Noting {
    fn len(&self) -> usize {
        self.of.len()
    }

    fn source(&self, index: usize) -> Option<(&dyn Dataset, usize)> {
        Some((&*self.of, index))
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        self.read.lock().unwrap().insert(self.archive(index).unwrap().to_path_buf());
        self.of.get(index)
    }
}

fn opened(folder: &Path) -> Arc<dyn Dataset> {
    open(folder, Split::Train, DecodeOptions::default()).unwrap()
}

/// 150 samples in tar files of 7, TFRecord files of 11, and packed files of 19, 20, 21 …
fn sets(folder: &Path) -> [Arc<dyn Dataset>; 3] {
    let glyphs = Glyphs::new(150, 3);
    write_webdataset(&glyphs, &folder.join("tar"), "train", 7).unwrap();
    write_tfrecord(&glyphs, &folder.join("records"), "train", 11).unwrap();
    std::fs::create_dir(folder.join("packs")).unwrap();
    for number in 0..6 {
        pack(&Glyphs::new(19 + number, 3), &folder.join(format!("packs/train-{number}.pack"))).unwrap();
    }
    ["tar", "records", "packs"].map(|name| opened(&folder.join(name)))
}

fn order(dataset: &dyn Dataset, streams: usize, window: usize) -> Arc<Archives> {
    Arc::new(Archives::of(dataset, streams, window).unwrap())
}

fn sampler(dataset: &dyn Dataset, batch: usize, archives: &Arc<Archives>) -> Sampler {
    let sampler = Sampler::new(dataset.len(), batch, 5, true, LastBatch::Pad).unwrap();
    sampler.ordered(SampleOrder::Archives(archives.clone())).unwrap()
}

fn epoch(sampler: &Sampler, epoch: u64) -> Vec<Vec<Option<u64>>> {
    (0..sampler.batches()).map(|batch| sampler.batch(Position::new(epoch, batch))).collect()
}

#[test]
fn every_epoch_has_every_sample_once_and_another_order() {
    let folder = tempfile::tempdir().unwrap();
    for (set, count) in sets(folder.path()).iter().zip([22, 14, 6]) {
        for (streams, window) in [(1, 1), (1, 3), (4, 2), (8, 1), (8, 50)] {
            let archives = order(&**set, streams, window);
            assert_eq!(archives.len(), count);
            let sampler = sampler(&**set, 16, &archives);
            let epochs = [0, 1, 2].map(|number| epoch(&sampler, number));
            for batches in &epochs {
                let mut samples: Vec<u64> = batches.iter().flatten().flatten().copied().collect();
                samples.sort_unstable();
                assert_eq!(samples, (0..set.len() as u64).collect::<Vec<_>>(), "{streams} streams");
            }
            assert!(epochs[0] != epochs[1] && epochs[1] != epochs[2]);
        }
    }
}

#[test]
fn a_stream_reads_a_window_of_archives_and_never_comes_back_to_one() {
    let folder = tempfile::tempdir().unwrap();
    let [set, ..] = sets(folder.path());
    let (streams, window) = (2, 3);
    let archives = order(&*set, streams, window);
    let sampler = sampler(&*set, 2, &archives);
    let batches = epoch(&sampler, 1);
    for stream in 0..streams {
        let of = |sample: &Option<u64>| sample.map(|sample| set.archive(sample as usize).unwrap().to_path_buf());
        let read: Vec<PathBuf> = batches.iter().filter_map(|batch| of(&batch[stream])).collect();
        let last = |archive: &PathBuf| read.iter().rposition(|other| other == archive).unwrap();
        for now in 0..read.len() {
            let open: BTreeSet<_> = read[..=now].iter().filter(|archive| last(archive) >= now).collect();
            assert!(open.len() <= window, "{} archives are open at {now}", open.len());
        }
        // Inside of a window they are mixed.
        let turns = read.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(turns > 30, "{turns}");
    }
}

fn loader(set: Arc<dyn Dataset>, workers: usize, rows: Option<std::ops::Range<usize>>) -> Loader {
    let config = LoaderConfig { batch_size: 16, workers, rows, seed: 5, prefetch: 3, ..LoaderConfig::default() };
    let archives = order(&*set, 8, 2);
    Loader::ordered(set, Arc::new(()), config, SampleOrder::Archives(archives)).unwrap()
}

fn stream(loader: &Loader, from: Position) -> Vec<Batch> {
    loader.stream(from, 2).map(Result::unwrap).collect()
}

#[test]
fn processes_bring_the_batches_of_one_and_read_archives_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    for set in sets(folder.path()) {
        let whole = stream(&loader(set.clone(), 2, None), Position::new(1, 0));
        for processes in [2, 4, 8] {
            let rows = |rank: usize| rank * 16 / processes..(rank + 1) * 16 / processes;
            let parts = (0..processes).map(|rank| {
                let set = Arc::new(Noting { of: set.clone(), read: Mutex::default() });
                let batches = stream(&loader(set.clone(), 1 + rank % 3, Some(rows(rank))), Position::new(1, 0));
                let read = set.read.lock().unwrap().clone();
                (batches, read)
            });
            let parts: Vec<_> = parts.collect();
            for (number, batch) in whole.iter().enumerate() {
                let indices = parts.iter().flat_map(|(batches, _)| batches[number].indices.clone());
                assert_eq!(indices.collect::<Vec<_>>(), batch.indices);
                let pixels = parts.iter().flat_map(|(batches, _)| batches[number].images.bytes().to_vec());
                assert!(pixels.collect::<Vec<_>>()[..] == batch.images.bytes()[..], "batch {number} of {processes}");
            }
            let archives = order(&*set, 8, 2);
            for (rank, (_, read)) in parts.iter().enumerate() {
                // One archive at most lies across the edge between two processes.
                let next = parts.get(rank + 1).map_or(0, |(_, next)| read.intersection(next).count());
                assert!(next <= 1, "ranks {rank} and {} of {processes} share {next} archives", rank + 1);
                let planned = archives.read_by(rows(rank), 16, 5, 1);
                let path = |&archive: &usize| set.archive(archives.samples(archive).start as usize).unwrap();
                assert!(read.iter().all(|read| planned.iter().any(|archive| path(archive) == read)));
                // What fills no batch at the end of a stream may have been all that it has of an archive.
                assert!(planned.len() <= read.len() + 8 / processes, "{planned:?} {read:?}");
            }
        }
    }
}

#[test]
fn any_step_resumes_as_if_nothing_had_happened() {
    let folder = tempfile::tempdir().unwrap();
    let [set, ..] = sets(folder.path());
    let whole = stream(&loader(set.clone(), 1, None), Position::default());
    for (at, workers) in [(1, 1), (7, 2), (9, 7), (12, 3)] {
        let rest = stream(&loader(set.clone(), workers, None), whole[at].position);
        assert!(rest == whole[at..], "from step {at}");
    }
}

#[test]
fn the_samples_of_an_epoch_do_not_depend_on_batch_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let [_, set, _] = sets(folder.path());
    let archives = order(&*set, 4, 2);
    let taken = |changes: &[(usize, u64)]| {
        let (mut position, mut samples) = (Position::default(), Vec::new());
        for (number, &(size, batches)) in changes.iter().enumerate() {
            let sampler = sampler(&*set, size, &archives);
            for _ in 0..batches {
                samples.extend(sampler.batch(position).into_iter().flatten());
                position = sampler.next(position);
            }
            let next = changes.get(number + 1).map_or(4, |(size, _)| *size);
            position = sampler.resized(position, next);
        }
        samples.sort_unstable();
        samples
    };
    assert_eq!(taken(&[(4, 22)]), taken(&[(8, 3), (16, 4)]));
    assert_eq!(taken(&[(4, 22)]), taken(&[(16, 2), (8, 4), (4, 6)]));
    assert_eq!(taken(&[(8, 3), (16, 8)]), (0..150).collect::<Vec<_>>());
}

#[test]
fn what_is_no_archive_and_batches_that_do_not_divide_are_refused() {
    let glyphs = Glyphs::new(20, 1);
    let problem = Archives::of(&glyphs, 1, 1).unwrap_err().to_string();
    assert!(problem.ends_with("is in no archive"), "{problem}");
    let folder = tempfile::tempdir().unwrap();
    let [set, ..] = sets(folder.path());
    let order = SampleOrder::Archives(order(&*set, 8, 1));
    let problem = Sampler::new(150, 12, 0, true, LastBatch::Drop).unwrap().ordered(order).unwrap_err().to_string();
    assert!(problem.starts_with("a batch of 12 cannot take equally many samples of 8 streams"), "{problem}");
}
