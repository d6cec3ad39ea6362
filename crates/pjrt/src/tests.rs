//! Clients, copies and executions against the [fake](crate::fake) plugin.

use crate::fake::{ONE_AT_A_TIME, alive, plugin};
use crate::{AttributeValue, Client, CompilerFlag, NamedValues, PjrtBackend, PjrtBuffer, PjrtError, XlaCompileOptions};
use octant_cluster::{MemoryStore, Store};
use octant_runtime::{Axis, Backend, Mesh, Process, Sharding};
use octant_tensor::{DType, HostTensor, Shape};
use std::sync::{Arc, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// Checks at its end that everything the fake returned has been given back.
struct Ledger(#[allow(dead_code)] MutexGuard<'static, ()>);

impl Ledger {
    fn open() -> Ledger {
        let ledger = Ledger(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
        assert_eq!(alive(), 0, "an earlier test leaked");
        ledger
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(alive(), 0, "objects of the plugin were leaked");
        }
    }
}

fn client() -> Client {
    Client::new(&plugin(), &NamedValues::new()).unwrap()
}

fn tensor(values: &[f32]) -> HostTensor {
    HostTensor::new([values.len()], values).unwrap()
}

fn values(buffer: &PjrtBuffer) -> Vec<f32> {
    buffer.to_host().unwrap().wait().unwrap().elements::<f32>().unwrap().to_vec()
}

#[test]
fn devices_are_described() {
    let _ledger = Ledger::open();
    let client = client();
    assert_eq!(client.platform_name().unwrap(), "fake");
    let devices = client.devices().unwrap();
    let ids: Vec<_> = devices.iter().map(|device| device.description().id).collect();
    assert_eq!(ids, [10, 20]);
    assert_eq!(devices[0].description().kind, "Fake 1");
    assert_eq!(devices[0].memory_stats().unwrap(), None, "the fake does not have that function");
}

#[test]
fn an_option_that_the_plugin_refuses_is_its_error() {
    let _ledger = Ledger::open();
    let options = NamedValues::from([("allocator".to_string(), AttributeValue::Text("bfc".into()))]);
    let error = Client::new(&plugin(), &options).err().unwrap();
    assert_eq!(error.to_string(), "invalid argument: Unexpected option.");
}

#[test]
fn host_bytes_live_until_the_slow_copy_has_read_them() {
    let _ledger = Ledger::open();
    let client = client();
    let device = &client.devices().unwrap()[0];
    let buffer = {
        let tensor = tensor(&[1.0, 2.0, 3.0]);
        PjrtBuffer::from_host(device, &tensor).unwrap()
        // The tensor is dropped here, long before the fake reads its bytes.
    };
    assert_eq!(buffer.shape().unwrap().dims(), [3]);
    assert_eq!(values(&buffer), [1.0, 2.0, 3.0]);
}

#[test]
fn a_copy_to_the_host_that_is_not_waited_for_does_no_harm() {
    let _ledger = Ledger::open();
    let client = client();
    let buffer = PjrtBuffer::from_host(&client.devices().unwrap()[0], &tensor(&[5.0; 1000])).unwrap();
    drop(buffer.to_host().unwrap());
}

#[test]
fn execution_runs_on_every_device_and_takes_donated_buffers() {
    let _ledger = Ledger::open();
    let client = client();
    let executable = client.compile("outputs=2 donates=0", &XlaCompileOptions::spmd(2)).unwrap();
    let devices = client.devices().unwrap();
    let arguments: Vec<Vec<PjrtBuffer>> = devices
        .iter()
        .zip([0.0f32, 100.0])
        .map(|(device, base)| {
            let state = PjrtBuffer::from_host(device, &tensor(&[base + 1.0])).unwrap();
            let batch = PjrtBuffer::from_host(device, &tensor(&[base + 2.0, base + 3.0])).unwrap();
            vec![state, batch]
        })
        .collect();
    let lists: Vec<Vec<&PjrtBuffer>> = arguments.iter().map(|list| list.iter().collect()).collect();

    let kept = executable.execute(&lists, &[0]).unwrap();
    assert_eq!(values(&kept.outputs[0][0]), [2.0]);
    assert_eq!(values(&kept.outputs[1][1]), [103.0, 104.0]);
    assert!(!arguments[0][0].is_deleted().unwrap(), "it is listed to be kept");

    let donated = executable.execute(&lists, &[]).unwrap();
    donated.done.iter().for_each(|done| done.wait().unwrap());
    assert!(donated.done.iter().all(|done| done.is_ready().unwrap()));
    assert!(arguments[0][0].is_deleted().unwrap() && arguments[1][0].is_deleted().unwrap());
    assert!(!arguments[0][1].is_deleted().unwrap());
    assert!(executable.execute(&lists, &[]).is_err(), "a donated buffer cannot be used again");

    // Outputs go straight into the next run, before they are computed.
    let next: Vec<Vec<&PjrtBuffer>> = kept.outputs.iter().map(|list| list.iter().collect()).collect();
    let next = executable.execute(&next, &[]).unwrap();
    assert_eq!(values(&next.outputs[1][0]), [103.0]);
}

#[test]
fn arguments_for_the_wrong_number_of_devices_are_refused() {
    let _ledger = Ledger::open();
    let client = client();
    let executable = client.compile("outputs=1", &XlaCompileOptions::spmd(2)).unwrap();
    let error = executable.execute(&[vec![]], &[]).err().unwrap();
    assert_eq!(error.to_string(), "the program runs on 2 devices, but arguments for 1 came");
}

#[test]
fn executables_are_stored_and_loaded() {
    let _ledger = Ledger::open();
    let client = client();
    let stored = client.compile("outputs=1", &XlaCompileOptions::default()).unwrap().executable().serialize().unwrap();
    let loaded = client.load_serialized(&stored).unwrap();
    assert_eq!(loaded.executable().outputs().unwrap(), 1);
    assert_eq!(loaded.executable().memory().unwrap().needed(), 120);
    let error = client.load_serialized(b"rubbish").err().unwrap();
    assert!(error.to_string().contains("no executable"), "{error}");
}

#[test]
fn a_function_that_the_plugin_does_not_have_is_an_error() {
    let _ledger = Ledger::open();
    let client = client();
    let executable = client.compile("outputs=1", &XlaCompileOptions::default()).unwrap();
    let error = executable.executable().fingerprint().unwrap_err();
    assert_eq!(error, PjrtError::NoFunction { function: "PJRT_Executable_Fingerprint" });
}

#[test]
fn a_flag_that_the_compiler_does_not_know_is_an_error_unless_it_is_optional() {
    let _ledger = Ledger::open();
    let (client, flag) = (client(), CompilerFlag::Bool(true));
    client.compile("outputs=1", &XlaCompileOptions::default().with_optional_flag("unheard_of", flag.clone())).unwrap();
    match client.compile("outputs=1", &XlaCompileOptions::default().with_flag("unheard_of", flag)) {
        Err(PjrtError::Status { message, .. }) => assert!(message.contains("unheard_of"), "{message}"),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn a_compiler_that_runs_out_of_memory_gives_the_numbers() {
    let _ledger = Ledger::open();
    match client().compile("nonsense", &XlaCompileOptions::default()) {
        Err(PjrtError::OutOfMemory(error)) => assert_eq!(error.needed, Some(9 << 30)),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn callbacks_run_once_the_work_is_done() {
    let _ledger = Ledger::open();
    let client = client();
    let buffer = PjrtBuffer::from_host(&client.devices().unwrap()[0], &tensor(&[1.0])).unwrap();
    let (sender, receiver) = mpsc::channel();
    buffer.ready().unwrap().on_ready(move |outcome| sender.send(outcome.is_ok()).unwrap()).unwrap();
    assert!(receiver.recv().unwrap());
    // The same on an event that is already done, and with a callback that panics.
    buffer.ready().unwrap().on_ready(|_| panic!("this must not reach the plugin")).unwrap();
}

/// Both processes of a client, as threads; each with the same store.
fn joined(store: &Arc<dyn Store>, nodes: usize, place: impl Fn(usize) -> usize + Sync) -> Vec<crate::Result<Client>> {
    let join = |thread: usize| {
        let number = |value: usize| AttributeValue::Int(value as i64);
        let options = [("node_id".to_string(), number(place(thread))), ("num_nodes".to_string(), number(nodes))];
        Client::joined(&plugin(), &NamedValues::from(options), store.clone())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|thread| scope.spawn(move || join(thread))).collect::<Vec<_>>();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn processes_find_each_other_through_the_store() {
    let _ledger = Ledger::open();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let clients: Vec<Client> = joined(&store, 2, |thread| thread).into_iter().map(Result::unwrap).collect();
    assert_eq!(store.get("global_topology/fake", Duration::ZERO).unwrap(), b"2,2");
    for (rank, client) in clients.iter().enumerate() {
        assert_eq!(client.process().unwrap(), rank as i32);
        let hosts: Vec<_> = client.all_devices().unwrap().iter().map(|device| (device.id, device.host)).collect();
        assert_eq!(hosts, [(2010, Some(0)), (2030, Some(0)), (2020, Some(1)), (2040, Some(1))]);
        assert_eq!(client.devices().unwrap().len(), 2);
    }
    let backends: Vec<_> = clients.into_iter().map(|client| PjrtBackend::new(client).unwrap()).collect();
    assert_eq!(backends[1].process(), Process { rank: 1, ranks: 2 });
    // What each uploads of a batch, and what each has of it.
    let mesh = |rank: usize| Mesh::new(4).across(Process { rank, ranks: 2 });
    let batch = Sharding::split(0, [Axis::Data]);
    let whole = Shape::new(DType::F32, [8]);
    let rows = tensor(&[4.0, 5.0, 6.0, 7.0]);
    let buffer = backends[1].upload_rows(&rows, 4, &whole, &mesh(1), &batch).unwrap();
    assert!(!buffer.is_addressable() && buffer.to_host().unwrap_err().to_string().contains("several processes"));
    let shards = buffer.shards().unwrap();
    assert_eq!((shards[0].starts[0], shards[1].starts[0]), (4, 6));
    assert_eq!(shards[1].tensor.elements::<f32>().unwrap(), [6.0, 7.0]);
    let replicated = backends[1].upload(&rows, &mesh(1), &Sharding::REPLICATED).unwrap();
    assert_eq!(replicated.to_host().unwrap(), rows);
    assert!(replicated.shards().unwrap().is_empty(), "the first process keeps it");
    assert!(backends[0].upload(&rows, &Mesh::new(8).across(Process { rank: 0, ranks: 4 }), &batch).is_err());
}

#[test]
fn a_second_process_of_the_same_number_is_refused_by_the_store() {
    let _ledger = Ledger::open();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    store.put("local_topology/fake/0", b"an earlier attempt").unwrap();
    let options =
        [("node_id", 0), ("num_nodes", 2)].map(|(name, value)| (name.to_string(), AttributeValue::Int(value)));
    let error = Client::joined(&plugin(), &options.into(), store).err().unwrap();
    let PjrtError::Status { code, message } = &error else { panic!("{error:?}") };
    assert_eq!(*code, crate::Code::AlreadyExists);
    assert!(message.contains("was put before"), "{message}");
    // Without a store, several processes cannot be one client.
    let alone = [("num_nodes".to_string(), AttributeValue::Int(2))];
    assert!(Client::new(&plugin(), &alone.into()).err().unwrap().to_string().contains("requires a key-value store"));
}
