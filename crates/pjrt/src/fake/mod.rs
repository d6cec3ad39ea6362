//! A plugin that is not there: a function table of our own behind the same C interface, for tests of everything that
//! needs a device. Its two "devices" are heap memory, its copies are slow on purpose, and it counts what it handed out,
//! so that a leak or a use after free shows.
//!
//! A "program" is `outputs=N donates=I`: output `i` is argument `i` plus one, and argument `I` is donated.

mod compiler;
mod memory;

use crate::plugin::Plugin;
use crate::sys::{self, *};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Buffers, events, executables and clients that were handed out and not yet destroyed.
static ALIVE: AtomicIsize = AtomicIsize::new(0);

/// Tests that count what is alive must not run side by side.
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub(crate) fn alive() -> isize {
    ALIVE.load(Ordering::SeqCst)
}

/// Hands an object out as an opaque pointer.
fn hand_out<T, P>(object: T) -> *mut P {
    ALIVE.fetch_add(1, Ordering::SeqCst);
    Box::into_raw(Box::new(object)).cast()
}

/// # Safety
/// `pointer` must come from [`hand_out`] of the same `T`, and be taken back once.
unsafe fn take_back<T, P>(pointer: *mut P) -> T {
    ALIVE.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: guaranteed by the caller.
    *unsafe { Box::from_raw(pointer.cast::<T>()) }
}

/// # Safety
/// `pointer` must come from [`hand_out`] of the same `T` and still be out.
unsafe fn look_at<'a, T, P>(pointer: *const P) -> &'a T {
    // SAFETY: guaranteed by the caller.
    unsafe { &*pointer.cast::<T>() }
}

struct FakeError {
    code: i32,
    message: &'static str,
}

fn fail(code: i32, message: &'static str) -> *mut PJRT_Error {
    hand_out(FakeError { code, message })
}

#[derive(Clone, Default)]
struct FakeEvent(Arc<(Mutex<EventState>, Condvar)>);

#[derive(Default)]
struct EventState {
    done: bool,
    callbacks: Vec<Box<dyn FnOnce() + Send>>,
}

impl FakeEvent {
    fn set(&self) {
        let callbacks = {
            let mut state = self.0.0.lock().unwrap();
            state.done = true;
            std::mem::take(&mut state.callbacks)
        };
        callbacks.into_iter().for_each(|callback| callback());
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let guard = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(guard, |state| !state.done).unwrap());
    }
}

/// A pointer that may travel to the thread that plays the device.
struct Portable<T>(*mut T);
// SAFETY: the tests keep what is pointed at alive and do not touch it meanwhile: that is what they test.
unsafe impl<T> Send for Portable<T> {}

impl<T> Portable<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

unsafe extern "C" fn error_destroy(args: *mut PJRT_Error_Destroy_Args) {
    // SAFETY: the error came from `fail`.
    let _ = unsafe { take_back::<FakeError, _>((*args).error) };
}

unsafe extern "C" fn error_message(args: *mut PJRT_Error_Message_Args) {
    // SAFETY: as above.
    unsafe {
        let error: &FakeError = look_at((*args).error);
        (*args).message = error.message.as_ptr().cast();
        (*args).message_size = error.message.len();
    }
}

unsafe extern "C" fn error_code(args: *mut PJRT_Error_GetCode_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { (*args).code = look_at::<FakeError, _>((*args).error).code };
    null_mut()
}

unsafe extern "C" fn initialize(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
    null_mut()
}

unsafe extern "C" fn event_destroy(args: *mut PJRT_Event_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: events are handed out as `FakeEvent`s.
    drop(unsafe { take_back::<FakeEvent, _>((*args).event) });
    null_mut()
}

unsafe extern "C" fn event_is_ready(args: *mut PJRT_Event_IsReady_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { (*args).is_ready = look_at::<FakeEvent, _>((*args).event).0.0.lock().unwrap().done };
    null_mut()
}

unsafe extern "C" fn event_await(args: *mut PJRT_Event_Await_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { look_at::<FakeEvent, _>((*args).event) }.wait();
    null_mut()
}

unsafe extern "C" fn event_on_ready(args: *mut PJRT_Event_OnReady_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    let (event, callback, user) = unsafe {
        let callback = (*args).callback.expect("a callback");
        (look_at::<FakeEvent, _>((*args).event), callback, Portable((*args).user_arg))
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

struct FakeClient;

unsafe extern "C" fn client_create(args: *mut PJRT_Client_Create_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    unsafe {
        if (*args).num_options > 0 {
            return fail(3, "Unexpected option.");
        }
        (*args).client = hand_out(FakeClient);
    }
    null_mut()
}

unsafe extern "C" fn client_destroy(args: *mut PJRT_Client_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: the client came from `client_create`.
    let _ = unsafe { take_back::<FakeClient, _>((*args).client) };
    null_mut()
}

unsafe extern "C" fn client_platform_name(args: *mut PJRT_Client_PlatformName_Args) -> *mut PJRT_Error {
    const NAME: &str = "fake";
    // SAFETY: the arguments are valid for the call.
    unsafe {
        (*args).platform_name = NAME.as_ptr().cast();
        (*args).platform_name_size = NAME.len();
    }
    null_mut()
}

unsafe extern "C" fn client_platform_version(_: *mut PJRT_Client_PlatformVersion_Args) -> *mut PJRT_Error {
    null_mut()
}

/// The devices are numbers disguised as pointers; nobody but the fake looks at them.
struct Devices([usize; 2]);
static DEVICES: Devices = Devices([10, 20]);

unsafe extern "C" fn client_devices(args: *mut PJRT_Client_AddressableDevices_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    unsafe {
        (*args).addressable_devices = DEVICES.0.as_ptr().cast();
        (*args).num_addressable_devices = DEVICES.0.len();
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

/// The fake as a plugin.
pub(crate) fn plugin() -> Plugin {
    // SAFETY: all-zero bytes are a valid table.
    let mut table: sys::PJRT_Api = unsafe { std::mem::zeroed() };
    table.struct_size = size_of::<sys::PJRT_Api>();
    table.pjrt_api_version.minor_version = 100;
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
    table.PJRT_Device_GetDescription = Some(device_description);
    table.PJRT_DeviceDescription_Id = Some(description_id);
    table.PJRT_DeviceDescription_Kind = Some(description_kind);
    table.PJRT_DeviceDescription_DebugString = Some(description_debug);
    table.PJRT_DeviceDescription_Attributes = Some(description_attributes);
    memory::fill(&mut table);
    compiler::fill(&mut table);
    // SAFETY: the functions above keep to the interface.
    unsafe { Plugin::from_table(&table, PathBuf::from("fake"), None) }.expect("the fake is a plugin")
}

fn later(work: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        work();
    });
}
