//! One run at a time stores checkpoints under an address.

use super::{ADDRESS, ENVIRONMENT, PLENTY, RECIPE, Store, Watching, train};
use octant_fetch::ObjectStore;
use octant_recipe::{LocalFiles, set_text};
use octant_run::{Observer, PreparedRun, RunError, RunEvent, TrainJob};
use octant_runtime::Backend;
use octant_testing::moto::Moto;
use octant_testing::oracle;
use octant_train::checkpoint::Checkpoint;
use std::path::Path;
use std::sync::Arc;

/// What a run on another machine left behind.
const ELSEWHERE: &[u8] = br#"{"session":"1","host":"elsewhere","directory":"/runs/a","process":7,"beat":3}"#;

fn job(run: &Path) -> TrainJob {
    let mut table = RECIPE.parse().unwrap();
    set_text(&mut table, &format!("checkpoint_store='{ADDRESS}'")).unwrap();
    TrainJob::from_table(table, None).unwrap().in_directory(run)
}

pub(super) fn prepared(run: &Path) -> Result<PreparedRun, RunError> {
    job(run).prepare(&LocalFiles { cache: run.join("cache") })
}

#[test]
fn two_runs_with_one_address_replaced_each_others_checkpoints() {
    let _environment = ENVIRONMENT.lock();
    let Some(python) = oracle::python("two runs with one address") else { return };
    let Some(moto) = Moto::start(&python, None) else { return };
    for (name, value) in moto.environment() {
        // SAFETY: the tests of this program hold the lock of `ENVIRONMENT` while they read it.
        unsafe { std::env::set_var(name, value) }
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let first = prepared(&at("first")).unwrap();
    let problem = prepared(&at("second")).err().unwrap().to_string();
    assert!(problem.starts_with(&format!("{ADDRESS} belongs to a run that is alive (process ")), "{problem}");
    assert!(problem.contains("first): give every run an address of its own"), "{problem}");
    assert!(!at("second").join("config.toml").exists());
    // One that has let go is no owner, and its own directory is never another run.
    drop(first);
    let (_, printed) = train(&at("second"), Some(ADDRESS), 1);
    assert!(!printed.iter().any(|text| text.contains("which has ended")), "{printed:?}");
    let (_, printed) = train(&at("second"), Some(ADDRESS), 100);
    assert!(printed.iter().any(|text| text.contains(&format!("is in {ADDRESS}"))), "{printed:?}");
    assert_eq!(ObjectStore::open(ADDRESS).unwrap().get("owner.json").unwrap(), None);
    // SAFETY: as above.
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].iter().for_each(|name| unsafe { std::env::remove_var(name) });
}

#[test]
fn an_owner_that_is_gone_is_replaced_and_named() {
    let _environment = ENVIRONMENT.lock();
    let server = Store::start(PLENTY);
    let folder = tempfile::tempdir().unwrap();
    ObjectStore::open(ADDRESS).unwrap().put("owner.json", ELSEWHERE).unwrap();
    let (_, printed) = train(&folder.path().join("run"), Some(ADDRESS), 1);
    let sentence =
        format!("{ADDRESS} belonged to process 7 on elsewhere for /runs/a, which has ended: it is this run's now");
    assert!(printed.contains(&sentence), "{printed:?}");
    assert!(!server.objects.lock().unwrap().contains_key("runs/a/owner.json"));
}

/// Takes the address over in the first epoch.
struct Robbed(Watching);

impl Observer for Robbed {
    fn event(&mut self, event: &RunEvent) {
        if let RunEvent::EpochBegins { epoch: 2, .. } = event {
            ObjectStore::open(ADDRESS).unwrap().put("owner.json", ELSEWHERE).unwrap();
        }
        self.0.event(event);
    }
}

#[test]
fn an_owner_that_was_taken_for_dead_stores_nothing_any_more() {
    let _environment = ENVIRONMENT.lock();
    let server = Store::start(PLENTY);
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let mut robbed = Robbed(Watching { stop: job.stop.clone(), epochs: 100, printed: Vec::new() });
    let backend: Arc<dyn Backend> = Arc::new(octant_cpu::CpuBackend::with_threads(1).unwrap());
    job.train(&backend, &LocalFiles { cache: folder.path().join("cache") }, &mut robbed).unwrap();
    let printed = robbed.0.printed;
    let lost = format!("{ADDRESS} belongs to process 7 on elsewhere for /runs/a now: this run stores nothing there");
    assert_eq!(printed.iter().filter(|text| text.starts_with(&lost)).count(), 1, "{printed:?}");
    let step = Checkpoint::read(&folder.path().join("checkpoints/last")).unwrap().progress.step;
    assert!(printed.contains(&format!("the checkpoint of step {step} is not in {ADDRESS}")), "{printed:?}");
    assert_eq!(server.objects.lock().unwrap()["runs/a/owner.json"], ELSEWHERE);
}
