//! A fake plugin: a function table of our own behind the same C API, for tests of everything that
//! needs a device. Its two "devices" are heap memory, its copies are slow on purpose, and it counts the objects it returned,
//! so that a leak or a use after free shows.
//!
//! A "program" is `outputs=N donates=I`: output `i` is argument `i` plus one, and argument `I` is donated; with `fault=start`,
//! `fault=later` or `fault=memory` it fails when it is started, while it runs, or for want of memory. Any StableHLO
//! module will do as well: its outputs are zeros of the right shapes, which is enough to test the whole binary. For that,
//! `tests/plugins/fake.rs` makes a shared library of this module, and `OCTANT_FAKE_PLUGIN` configures its faults; see
//! [`setting`].
//!
//! Several processes find each other as XLA's do ([`processes`]). Where `OCTANT_FAKE_EXECUTOR` names Python and
//! `tests/plugins/executor.py`, modules are really compiled, partitioned and run, by jaxlib on the processor, in a process beside
//! each of ours; sums over processes go through its gloo ([`executor`]).

mod compiler;
mod executor;
mod memory;
mod processes;
mod signature;
mod topology;

use crate::sys::*;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// A number that the environment sets, as in `OCTANT_FAKE_PLUGIN="devices=8 vanishes=3"`.
///
/// * `devices`: how many there are, up to eight; 2 if not set.
/// * `major`, `minor`, `table`: the version that the plugin claims, and the bytes that it claims for its table.
/// * `vanishes`: the number of the execution whose results never come; later ones are refused.
/// * `compile_seconds`: how long a compilation takes.
/// * `executable_bytes`: how long stored executables are at least.
/// * `memory`, `needs`: the bytes of a device, and the temporary ones that programs claim to need.
/// * `refuses`: 1 for a compiler that finds every program too large.
/// * `exhausts`: the number of the execution that finds no memory.
/// * `blocks`: the number of the copy to the device in which the caller is stuck for ever.
fn setting(name: &str) -> Option<u64> {
    let settings = std::env::var("OCTANT_FAKE_PLUGIN").ok()?;
    settings.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// Buffers, events, executables and clients that were returned and not yet destroyed.
static ALIVE: AtomicIsize = AtomicIsize::new(0);

/// Tests that count what is alive must not run side by side.
#[cfg(test)]
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[cfg(test)]
pub(crate) fn alive() -> isize {
    ALIVE.load(Ordering::SeqCst)
}

/// Moves an object to the heap and returns an opaque pointer.
fn into_pointer<T, P>(object: T) -> *mut P {
    ALIVE.fetch_add(1, Ordering::SeqCst);
    Box::into_raw(Box::new(object)).cast()
}

/// # Safety
/// `pointer` must come from [`into_pointer`] of the same `T`, and be taken back once.
unsafe fn from_pointer<T, P>(pointer: *mut P) -> T {
    ALIVE.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: guaranteed by the caller.
    *unsafe { Box::from_raw(pointer.cast::<T>()) }
}

/// # Safety
/// `pointer` must come from [`into_pointer`] of the same `T` and still be out.
unsafe fn borrow<'a, T, P>(pointer: *const P) -> &'a T {
    // SAFETY: guaranteed by the caller.
    unsafe { &*pointer.cast::<T>() }
}

struct FakeError {
    code: i32,
    message: &'static str,
}

fn fail(code: i32, message: &'static str) -> *mut PJRT_Error {
    into_pointer(FakeError { code, message })
}

#[derive(Clone, Default)]
struct FakeEvent(Arc<(Mutex<EventState>, Condvar)>);

#[derive(Default)]
struct EventState {
    done: bool,
    /// The work was lost.
    failed: bool,
    callbacks: Vec<Box<dyn FnOnce() + Send>>,
}

impl FakeEvent {
    /// An event of work that will never be done.
    fn of_lost_work() -> FakeEvent {
        let event = FakeEvent::default();
        *event.0.0.lock().unwrap() = EventState { done: true, failed: true, ..EventState::default() };
        event
    }

    fn set(&self) {
        let callbacks = {
            let mut state = self.0.0.lock().unwrap();
            state.done = true;
            std::mem::take(&mut state.callbacks)
        };
        callbacks.into_iter().for_each(|callback| callback());
        self.0.1.notify_all();
    }

    fn is_lost(&self) -> bool {
        self.0.0.lock().unwrap().failed
    }

    /// Waits, and returns whether the work was done.
    fn wait(&self) -> bool {
        let guard = self.0.0.lock().unwrap();
        !self.0.1.wait_while(guard, |state| !state.done).unwrap().failed
    }
}

/// The error of a lost device.
fn gone() -> *mut PJRT_Error {
    fail(14, "The fake has fallen off the bus.\nStack of the fake's own functions: 0x1 0x2 0x3")
}

/// A pointer that may be sent to the thread that acts as the device.
struct Portable<T>(*mut T);
// SAFETY: the tests keep what is pointed at alive and do not touch it in that time: that is what they test.
unsafe impl<T> Send for Portable<T> {}

impl<T> Portable<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

unsafe extern "C" fn error_destroy(args: *mut PJRT_Error_Destroy_Args) {
    // SAFETY: the error came from `fail`.
    let _ = unsafe { from_pointer::<FakeError, _>((*args).error) };
}

unsafe extern "C" fn error_message(args: *mut PJRT_Error_Message_Args) {
    // SAFETY: as above.
    unsafe {
        let error: &FakeError = borrow((*args).error);
        (*args).message = error.message.as_ptr().cast();
        (*args).message_size = error.message.len();
    }
}

unsafe extern "C" fn error_code(args: *mut PJRT_Error_GetCode_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { (*args).code = borrow::<FakeError, _>((*args).error).code };
    null_mut()
}

unsafe extern "C" fn initialize(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
    null_mut()
}

unsafe extern "C" fn event_destroy(args: *mut PJRT_Event_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: events are returned as `FakeEvent`s.
    drop(unsafe { from_pointer::<FakeEvent, _>((*args).event) });
    null_mut()
}

unsafe extern "C" fn event_is_ready(args: *mut PJRT_Event_IsReady_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { (*args).is_ready = borrow::<FakeEvent, _>((*args).event).0.0.lock().unwrap().done };
    null_mut()
}

unsafe extern "C" fn event_await(args: *mut PJRT_Event_Await_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    match unsafe { borrow::<FakeEvent, _>((*args).event) }.wait() {
        true => null_mut(),
        false => gone(),
    }
}

unsafe extern "C" fn event_on_ready(args: *mut PJRT_Event_OnReady_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    let (event, callback, user) = unsafe {
        let callback = (*args).callback.expect("a callback");
        (borrow::<FakeEvent, _>((*args).event), callback, Portable((*args).user_arg))
    };
    // SAFETY: the callback is called once, with what it was registered with.
    let run = move || unsafe { callback(null_mut(), user.get()) };
    let mut state = event.0.0.lock().unwrap();
    match state.done {
        false => state.callbacks.push(Box::new(run)),
        true => {
            drop(state);
            run();
        }
    }
    null_mut()
}

struct FakeClient {
    /// The number of this process, and how many there are.
    node: usize,
    nodes: usize,
    devices: Vec<usize>,
    all_devices: Vec<usize>,
}

unsafe extern "C" fn client_create(args: *mut PJRT_Client_Create_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    let args = unsafe { &mut *args };
    // SAFETY: as above.
    let options = unsafe { crate::named_value::from_c(args.create_options, args.num_options) };
    let mut place = [0, 1];
    for (name, value) in &options {
        let slot = ["node_id", "num_nodes"].iter().position(|known| known == name);
        match (slot, value.as_f64()) {
            (Some(slot), Some(number)) => place[slot] = number as usize,
            _ => return fail(3, "Unexpected option."),
        }
    }
    let [node, nodes] = place;
    if nodes > 1 {
        // SAFETY: the callbacks are valid for the call.
        if let Err(error) = unsafe { processes::meet(args, node, nodes) } {
            return error;
        }
    }
    let devices = devices();
    let of_node = |node: usize| (0..devices.len()).map(move |local| processes::device(local, node, nodes));
    let all_devices = if nodes > 1 { (0..nodes).flat_map(of_node).collect() } else { devices.to_vec() };
    let devices = if nodes > 1 { of_node(node).collect() } else { devices.to_vec() };
    args.client = into_pointer(FakeClient { node, nodes, devices, all_devices });
    null_mut()
}

unsafe extern "C" fn client_process(args: *mut PJRT_Client_ProcessIndex_Args) -> *mut PJRT_Error {
    // SAFETY: the client came from `client_create`.
    unsafe { (*args).process_index = borrow::<FakeClient, _>((*args).client).node as i32 };
    null_mut()
}

unsafe extern "C" fn client_all_devices(args: *mut PJRT_Client_Devices_Args) -> *mut PJRT_Error {
    // SAFETY: as above; the list lives as long as the client.
    unsafe {
        let devices = &borrow::<FakeClient, _>((*args).client).all_devices;
        (*args).devices = devices.as_ptr().cast();
        (*args).num_devices = devices.len();
    }
    null_mut()
}

unsafe extern "C" fn description_process(args: *mut PJRT_DeviceDescription_ProcessIndex_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    unsafe { (*args).process_index = processes::node_of((*args).device_description as usize) as i32 };
    null_mut()
}

unsafe extern "C" fn client_destroy(args: *mut PJRT_Client_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: the client came from `client_create`.
    let _ = unsafe { from_pointer::<FakeClient, _>((*args).client) };
    null_mut()
}

unsafe extern "C" fn client_platform_name(args: *mut PJRT_Client_PlatformName_Args) -> *mut PJRT_Error {
    const NAME: &str = "fake";
    // SAFETY: the arguments are valid for the call.
    unsafe {
        let name = if setting("tpu").is_some() { "tpu" } else { NAME };
        (*args).platform_name = name.as_ptr().cast();
        (*args).platform_name_size = name.len();
    }
    null_mut()
}

unsafe extern "C" fn client_platform_version(_: *mut PJRT_Client_PlatformVersion_Args) -> *mut PJRT_Error {
    null_mut()
}

/// Device pointers are plain numbers, which nothing dereferences.
static DEVICES: [usize; 8] = [10, 20, 30, 40, 50, 60, 70, 80];

fn devices() -> &'static [usize] {
    &DEVICES[..setting("devices").unwrap_or(2) as usize]
}

unsafe extern "C" fn client_devices(args: *mut PJRT_Client_AddressableDevices_Args) -> *mut PJRT_Error {
    // SAFETY: the client came from `client_create`, and its list lives as long as it.
    unsafe {
        let devices = &borrow::<FakeClient, _>((*args).client).devices;
        (*args).addressable_devices = devices.as_ptr().cast();
        (*args).num_addressable_devices = devices.len();
    }
    null_mut()
}

unsafe extern "C" fn device_description(args: *mut PJRT_Device_GetDescription_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    unsafe { (*args).device_description = (*args).device.cast() };
    null_mut()
}

unsafe extern "C" fn description_id(args: *mut PJRT_DeviceDescription_Id_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    unsafe { (*args).id = (*args).device_description as usize as i32 };
    null_mut()
}

unsafe extern "C" fn description_kind(args: *mut PJRT_DeviceDescription_Kind_Args) -> *mut PJRT_Error {
    const KIND: &str = "Fake 1";
    // SAFETY: the arguments are valid for the call.
    unsafe {
        (*args).device_kind = KIND.as_ptr().cast();
        (*args).device_kind_size = KIND.len();
    }
    null_mut()
}

unsafe extern "C" fn description_debug(_: *mut PJRT_DeviceDescription_DebugString_Args) -> *mut PJRT_Error {
    null_mut()
}

unsafe extern "C" fn description_attributes(_: *mut PJRT_DeviceDescription_Attributes_Args) -> *mut PJRT_Error {
    null_mut()
}

unsafe extern "C" fn device_memory(args: *mut PJRT_Device_MemoryStats_Args) -> *mut PJRT_Error {
    let Some(memory) = setting("memory") else { return fail(12, "The fake does not count its memory.") };
    // SAFETY: the arguments are valid for the call.
    unsafe {
        (*args).bytes_limit = memory as i64;
        (*args).bytes_limit_is_set = true;
    }
    null_mut()
}

/// The fake's function table.
pub(crate) fn table() -> PJRT_Api {
    // SAFETY: all-zero bytes are a valid table.
    let mut table: PJRT_Api = unsafe { std::mem::zeroed() };
    table.struct_size = setting("table").map_or(size_of::<PJRT_Api>(), |bytes| bytes as usize);
    table.pjrt_api_version.major_version = setting("major").unwrap_or(0) as i32;
    table.pjrt_api_version.minor_version = setting("minor").unwrap_or(100) as i32;
    table.PJRT_Error_Destroy = Some(error_destroy);
    table.PJRT_Error_Message = Some(error_message);
    table.PJRT_Error_GetCode = Some(error_code);
    table.PJRT_Plugin_Initialize = Some(initialize);
    table.PJRT_Event_Destroy = Some(event_destroy);
    table.PJRT_Event_IsReady = Some(event_is_ready);
    table.PJRT_Event_Await = Some(event_await);
    table.PJRT_Event_OnReady = Some(event_on_ready);
    table.PJRT_Client_Create = Some(client_create);
    table.PJRT_Client_Destroy = Some(client_destroy);
    table.PJRT_Client_PlatformName = Some(client_platform_name);
    table.PJRT_Client_PlatformVersion = Some(client_platform_version);
    table.PJRT_Client_AddressableDevices = Some(client_devices);
    table.PJRT_Client_ProcessIndex = Some(client_process);
    table.PJRT_Client_Devices = Some(client_all_devices);
    table.PJRT_DeviceDescription_ProcessIndex = Some(description_process);
    table.PJRT_Device_GetDescription = Some(device_description);
    table.PJRT_Device_MemoryStats = Some(device_memory);
    table.PJRT_DeviceDescription_Id = Some(description_id);
    table.PJRT_DeviceDescription_Kind = Some(description_kind);
    table.PJRT_DeviceDescription_DebugString = Some(description_debug);
    table.PJRT_DeviceDescription_Attributes = Some(description_attributes);
    memory::fill(&mut table);
    compiler::fill(&mut table);
    topology::fill(&mut table);
    table
}

/// The fake as a plugin.
#[cfg(test)]
pub(crate) fn plugin() -> crate::plugin::Plugin {
    // SAFETY: the table's functions keep to the interface.
    let plugin = unsafe { crate::plugin::Plugin::from_table(&table(), "fake".into(), None) };
    plugin.expect("the fake is a plugin")
}

/// Waits for ever.
fn block() -> ! {
    loop {
        std::thread::park();
    }
}

fn later(work: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        work();
    });
}
