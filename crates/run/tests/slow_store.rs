//! A store that holds a run up is named in what the run says of its time, with how fast it was.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_data::Glyphs;
use octant_data::readers::write_webdataset;
use octant_predict::Downloads;
use octant_recipe::{LocalCopy, RecipeError, Surroundings};
use octant_run::{RunEvent, TrainJob};
use octant_runtime::Backend;
use octant_testing::http::{Server, object_store};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const RECIPE: &str = "name = 'far'\ntask = 'classify'\nmodel = 'fashion-cnn-tiny'\nbatch_size = 8\n\
    [data]\nkind = 'folder'\ndir = 's3://bucket/set'\n\
    [[phases]]\nname = 'only'\nepochs = 2\nschedule = { lr = 1e-3 }\n";
/// How long the store takes for each object, one after the other.
const PER_OBJECT: Duration = Duration::from_secs(1);

struct Fetching(PathBuf);

impl Surroundings for Fetching {
    fn cache(&self) -> PathBuf {
        self.0.clone()
    }

    fn local(&self, location: &Path) -> octant_recipe::Result<LocalCopy> {
        let copy = Downloads::new(&self.0).localize_data(location, &mut |_, _, _| {});
        copy.map_err(|error| RecipeError::Refused(error.to_string()))
    }
}

/// How a run sums up its time after each epoch.
fn summaries(run: &Path, cache: &Path) -> Vec<String> {
    let backend: Arc<dyn Backend> = Arc::new(octant_cpu::CpuBackend::with_threads(1).unwrap());
    let mut summaries = Vec::new();
    let mut observer = |event: &RunEvent| {
        if let RunEvent::Epoch(report) = event {
            summaries.push(report.bottleneck.clone());
        }
    };
    let job = TrainJob::from_table(RECIPE.parse().unwrap(), None).unwrap().in_directory(run);
    job.train(&backend, &Fetching(cache.into()), &mut observer).unwrap();
    summaries
}

#[test]
fn a_slow_store_was_not_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut paths = write_webdataset(&Glyphs::new(48, 1), &at("made"), "train", 12).unwrap();
    paths.extend(write_webdataset(&Glyphs::new(12, 2), &at("made"), "val", 12).unwrap());
    let name = |path: &PathBuf| format!("set/{}", path.file_name().unwrap().to_string_lossy());
    let objects: BTreeMap<String, Vec<u8>> =
        paths.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect();
    let (count, size) = (objects.len() as u32, objects.values().map(Vec::len).sum::<usize>());
    let objects = Mutex::new(objects);
    let server = Server::start(move |_, request| {
        let mut objects = objects.lock().unwrap();
        if request.target.ends_with(".tar") {
            std::thread::sleep(PER_OBJECT);
        }
        object_store(&mut objects, request)
    });
    // SAFETY: the only test of this program.
    unsafe { std::env::set_var("AWS_ENDPOINT_URL", &server.address) };
    let first = summaries(&at("first"), &at("cache"));
    assert!(first.iter().all(|text| text.starts_with("bound by the store s3://bucket/set (")), "{first:?}");
    // It cannot have been faster than it was throttled to, and not much slower.
    let rate = first[0].split_once("before the first step (").unwrap().1.split_once(" KiB/s)").unwrap().0;
    let most = size as f64 / 1024.0 / (PER_OBJECT * count).as_secs_f64();
    let rate: f64 = rate.parse().unwrap();
    assert!((0.4 * most..1.05 * most).contains(&rate), "{rate} of {most} KiB/s: {first:?}");
    // What is here does not wait for it.
    let second = summaries(&at("second"), &at("cache"));
    assert!(second.iter().all(|text| !text.contains("s3://")), "{second:?}");
}
