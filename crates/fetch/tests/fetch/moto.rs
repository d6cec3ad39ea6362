//! The same against moto, a server of S3's interface that others wrote. `OCTANT_ORACLE_PYTHON` names a Python that has it
//! (`pip install moto[s3] flask-cors`).

use super::locations::{ENVIRONMENT, set};
use octant_fetch::{DownloadCache, FetchLocation, ObjectStore};
use octant_testing::moto::Moto;
use octant_testing::oracle;

#[test]
fn moto_keeps_what_is_stored_and_gives_it_back() {
    let _environment = ENVIRONMENT.lock();
    let Some(python) = oracle::python("an object store") else { return };
    let Some(server) = Moto::start(&python, None) else { return };
    server.environment().iter().for_each(|(name, value)| set(name, value));
    let store = ObjectStore::open("s3://bucket/runs/a").unwrap().with_pieces(10);
    let folder = tempfile::tempdir().unwrap();
    let (sent, received) = (folder.path().join("sent"), folder.path().join("received"));
    std::fs::write(&sent, "a text of twenty-six bytes").unwrap();
    let stored = store.put_file("step-1/a b+c.bin", &sent).unwrap();
    store.put("last.json", b"{}").unwrap();
    store.put("last.json", b"[]").unwrap();
    assert_eq!(store.get("last.json").unwrap().as_deref(), Some(&b"[]"[..]));
    assert_eq!(store.get("best.json").unwrap(), None);
    assert!(store.put_new("owner.json", b"first").unwrap() && !store.put_new("owner.json", b"second").unwrap());
    assert_eq!(store.get("owner.json").unwrap().as_deref(), Some(&b"first"[..]));
    let names: Vec<String> = (1..=3).map(|number| format!("step-1/a b+c.bin.part-0000{number}")).collect();
    assert_eq!(store.list("step-").unwrap(), names);
    store.get_file("step-1/a b+c.bin", &stored, &received).unwrap();
    assert_eq!(std::fs::read(&received).unwrap(), std::fs::read(&sent).unwrap());
    store.delete(&names[0]).unwrap();
    assert_eq!(store.list("step-").unwrap(), names[1..]);
    // Data folders are read from there by the same listing.
    let cache = DownloadCache::open(folder.path().join("cache")).unwrap();
    let path = FetchLocation::parse("s3://bucket/runs").unwrap().localize(&cache, &mut |_, _| ()).unwrap();
    assert_eq!(std::fs::read(path.join("a/last.json")).unwrap(), b"[]");
    set("AWS_ACCESS_KEY_ID", "");
}
