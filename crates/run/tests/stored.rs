//! Checkpoints in an object store: a commit that nothing interrupts half, and runs that resume on another machine.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "stored/owners.rs"]
mod owners;

use octant_recipe::{LocalFiles, set_text};
use octant_run::{Observer, RunEvent, RunOutcome, Stop, TrainJob, restore, store};
use octant_runtime::Backend;
use octant_tensor::HostTensor;
use octant_testing::http::{HttpResponse, Server, object_store};
use octant_train::RunProgress;
use octant_train::checkpoint::{Checkpoint, Contents, Snapshot, write};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const ADDRESS: &str = "s3://bucket/runs/a";
/// The server's address is the whole process's.
static ENVIRONMENT: Mutex<()> = Mutex::new(());

/// A store that refuses to be changed after so many requests that change it.
#[derive(Clone, Default)]
struct Store {
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    left: Arc<AtomicUsize>,
}

impl Store {
    fn start(left: usize) -> Store {
        let store = Store { left: Arc::new(AtomicUsize::new(left)), ..Store::default() };
        let served = store.clone();
        let server = Server::start(move |_, request| {
            if ["PUT", "DELETE"].contains(&request.method.as_str())
                && served.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err()
            {
                return HttpResponse::status(403);
            }
            object_store(&mut served.objects.lock().unwrap(), request)
        });
        // SAFETY: the tests of this program hold the lock of `ENVIRONMENT` while they read it.
        unsafe { std::env::set_var("AWS_ENDPOINT_URL", &server.address) };
        store
    }

    fn allow(&self, requests: usize) {
        self.left.store(requests, Ordering::SeqCst);
    }

    /// What the objects of checkpoints begin with.
    fn folders(&self) -> Vec<String> {
        let objects = self.objects.lock().unwrap();
        let mut folders: Vec<String> = objects
            .keys()
            .filter_map(|key| Some(key.strip_prefix("runs/a/")?.split_once('/')?.0.to_string()))
            .collect();
        folders.dedup();
        folders
    }
}

const PLENTY: usize = 1 << 20;

/// A run whose newest checkpoint has that step.
fn checkpoint(run: &Path, step: u64) {
    let tensor = |value: f32| HostTensor::new([2, 2], &[value, 1.0, 2.0, 3.0]).unwrap();
    let contents = Contents {
        snapshot: Snapshot {
            parts: None,
            model: vec![("w".into(), tensor(step as f32))],
            state: vec![("w#exp_avg".into(), HostTensor::scalar(step as f32))],
        },
        progress: RunProgress { step, ..RunProgress::default() },
        config: "seed = 1\n".into(),
        metadata: vec![],
        mentioned: Vec::new(),
    };
    write(&run.join("checkpoints"), "last", &contents).unwrap();
    std::fs::write(run.join("config.toml"), "seed = 1\n").unwrap();
    std::fs::write(run.join("metrics.csv"), format!("step\n{step}\n")).unwrap();
    std::fs::write(run.join("run.lock"), "").unwrap();
}

/// The step that another machine resumes from, where everything there is whole.
fn resumed() -> Option<u64> {
    let folder = tempfile::tempdir().unwrap();
    restore(ADDRESS, folder.path()).unwrap()?;
    let (found, warning) = Checkpoint::newest(&folder.path().join("checkpoints"), "last").unwrap().unwrap();
    assert_eq!(warning, None);
    let step = found.progress.step;
    assert_eq!(found.model.get("w").unwrap().to_f64s()[0], step as f64);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!((read("metrics.csv"), read("config.toml")), (format!("step\n{step}\n"), "seed = 1\n".into()));
    assert!(!folder.path().join("run.lock").exists());
    Some(step)
}

#[test]
fn an_upload_that_breaks_off_anywhere_leaves_the_earlier_checkpoint() {
    let _environment = ENVIRONMENT.lock();
    let mut broken = 0;
    for left in 0.. {
        let (server, run) = (Store::start(PLENTY), tempfile::tempdir().unwrap());
        assert_eq!(resumed(), None);
        for step in [1, 2] {
            checkpoint(run.path(), step);
            store(run.path(), ADDRESS).unwrap();
            assert_eq!(resumed(), Some(step));
        }
        checkpoint(run.path(), 3);
        server.allow(left);
        let outcome = store(run.path(), ADDRESS);
        let is_committed = resumed() == Some(3);
        assert!(is_committed || resumed() == Some(2), "after {left} requests");
        if outcome.is_ok() {
            assert!(is_committed);
            break;
        }
        broken += 1;
        // The next upload stores it, and removes what was begun.
        server.allow(PLENTY);
        checkpoint(run.path(), 4);
        store(run.path(), ADDRESS).unwrap();
        assert_eq!((resumed(), server.folders().len()), (Some(4), 2), "{:?}", server.folders());
    }
    assert!(broken >= 8, "{broken}");
}

#[test]
fn a_damaged_object_leads_to_the_checkpoint_before() {
    let _environment = ENVIRONMENT.lock();
    let (server, run) = (Store::start(PLENTY), tempfile::tempdir().unwrap());
    for step in [5, 6] {
        checkpoint(run.path(), step);
        store(run.path(), ADDRESS).unwrap();
    }
    let is_state = |key: &&String| key.contains("00000006") && key.ends_with("state.safetensors");
    let key = server.objects.lock().unwrap().keys().find(is_state).cloned().unwrap();
    server.objects.lock().unwrap().get_mut(&key).unwrap()[3] ^= 1;
    let other = tempfile::tempdir().unwrap();
    let text = restore(ADDRESS, other.path()).unwrap().unwrap();
    assert!(
        text.starts_with(&format!("the checkpoint of step 5 comes from {ADDRESS}; it is the one before the newest")),
        "{text}"
    );
    // What the directory has is not older than that of the store.
    assert_eq!(restore(ADDRESS, run.path()).unwrap(), None);
}

#[test]
fn a_name_that_leads_out_of_the_run_is_refused() {
    let _environment = ENVIRONMENT.lock();
    let (server, run) = (Store::start(PLENTY), tempfile::tempdir().unwrap());
    checkpoint(run.path(), 1);
    store(run.path(), ADDRESS).unwrap();
    let list = server.objects.lock().unwrap()["runs/a/last.json"].clone();
    let list = String::from_utf8(list).unwrap().replace("metrics.csv", "../metrics.csv");
    server.objects.lock().unwrap().insert("runs/a/last.json".into(), list.into_bytes());
    let other = tempfile::tempdir().unwrap();
    let problem = restore(ADDRESS, &other.path().join("run")).unwrap_err().to_string();
    assert!(problem.ends_with("which is no file of a run"), "{problem}");
    assert!(!other.path().join("metrics.csv").exists());
}

/// Stops a run after so many epochs, and keeps what it prints.
struct Watching {
    stop: Stop,
    epochs: u64,
    printed: Vec<String>,
}

impl Observer for Watching {
    fn event(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Epoch(report) if report.epoch >= self.epochs => self.stop.stop(),
            RunEvent::Message(text) | RunEvent::Warning(text) => self.printed.push(text.to_string()),
            _ => {}
        }
    }
}

const RECIPE: &str = "name = 'stored'\ntask = 'classify'\nmodel = 'resnet-tiny'\nbatch_size = 4\n\
    [data]\nkind = 'shapes'\ntrain = 14\ntest = 4\nside = 32\n\
    [[phases]]\nname = 'first'\nepochs = 4\nschedule = { lr = 1e-3 }\n";

fn train(run: &Path, address: Option<&str>, epochs: u64) -> (RunOutcome, Vec<String>) {
    let mut table = RECIPE.parse().unwrap();
    address.iter().for_each(|address| set_text(&mut table, &format!("checkpoint_store='{address}'")).unwrap());
    let job = TrainJob::from_table(table, None).unwrap().in_directory(run);
    let mut watching = Watching { stop: job.stop.clone(), epochs, printed: Vec::new() };
    let backend: Arc<dyn Backend> = Arc::new(octant_cpu::CpuBackend::with_threads(1).unwrap());
    let files = LocalFiles { cache: run.join("cache") };
    let outcome = job.train(&backend, &files, &mut watching).unwrap();
    (outcome, watching.printed)
}

#[test]
fn a_run_resumes_bit_for_bit_on_a_machine_that_has_nothing_of_it() {
    let _environment = ENVIRONMENT.lock();
    let server = Store::start(PLENTY);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    train(&at("whole"), None, 100);
    let (_, printed) = train(&at("first"), Some(ADDRESS), 2);
    let step = Checkpoint::read(&at("first/checkpoints/last")).unwrap().progress.step;
    assert!(printed.contains(&format!("the checkpoint of step {step} is in {ADDRESS}")), "{printed:?}");
    std::fs::remove_dir_all(at("first")).unwrap();
    let (outcome, printed) = train(&at("second"), Some(ADDRESS), 100);
    assert!(printed.contains(&format!("the checkpoint of step {step} comes from {ADDRESS}")), "{printed:?}");
    assert_eq!(outcome.summary.progress.epoch, 4);
    let file = |run: &str, name: &str| std::fs::read(at(run).join(name)).unwrap();
    for name in ["checkpoints/last/model.safetensors", "checkpoints/last/state.safetensors", "metrics.csv"] {
        assert!(file("whole", name) == file("second", name), "{name} differs");
    }
    // Two checkpoints of each name at most are kept.
    assert!(server.folders().len() <= 4, "{:?}", server.folders());
    let log = String::from_utf8(file("second", "log.txt")).unwrap();
    assert!(log.contains(&format!("is in {ADDRESS} (")), "{log}");
}

#[test]
fn a_store_that_fails_is_reported_and_training_continues() {
    let _environment = ENVIRONMENT.lock();
    let server = Store::start(0);
    let folder = tempfile::tempdir().unwrap();
    // One that takes nothing from the beginning is a mistake in the address or the key.
    let refused = owners::prepared(&folder.path().join("never")).err().unwrap().to_string();
    assert!(refused.contains("owner.json returned 403"), "{refused}");
    server.allow(1);
    let (outcome, printed) = train(folder.path(), Some(ADDRESS), 100);
    assert_eq!(outcome.summary.progress.epoch, 4);
    let has = |part: &str| printed.iter().any(|text| text.contains(part));
    assert!(
        has("a checkpoint could not be stored in s3://bucket/runs/a: ") && has("is not in s3://bucket"),
        "{printed:?}"
    );
}
