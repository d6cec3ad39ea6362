//! Clients, copies and executions against the [fake](crate::fake) plugin.

use crate::fake::{ONE_AT_A_TIME, alive, plugin};
use crate::{AttributeValue, Client, CompilerFlag, NamedValues, PjrtBuffer, PjrtError, XlaCompileOptions};
use octant_tensor::HostTensor;
use std::sync::{MutexGuard, PoisonError, mpsc};

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
