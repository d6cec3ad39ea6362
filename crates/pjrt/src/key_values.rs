//! The table of keys and values that plugins of several processes exchange their topologies and clique ids through: C callbacks
//! over a cluster's [`Store`].
//!
//! A plugin calls them from threads of its own, several at a time, while a client is created, a program is compiled or a
//! communicator is opened. A key that was put before must be refused as ALREADY_EXISTS: plugins count on it.

use crate::error::Code;
use crate::named_value::{slice, text};
use crate::sys;
use octant_cluster::{Store, StoreError};
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

/// A store at an address that does not change, which is what callbacks are registered with.
pub(crate) struct KeyValues(Box<Arc<dyn Store>>);

impl KeyValues {
    pub(crate) fn new(store: Arc<dyn Store>) -> KeyValues {
        KeyValues(Box::new(store))
    }

    /// Fills in the callbacks. They may be called as long as `self` lives.
    pub(crate) fn register(&self, args: &mut sys::PJRT_Client_Create_Args) {
        let user: *mut c_void = (&raw const *self.0).cast_mut().cast();
        args.kv_get_callback = Some(get);
        args.kv_put_callback = Some(put);
        args.kv_try_get_callback = Some(try_get);
        (args.kv_get_user_arg, args.kv_put_user_arg, args.kv_try_get_user_arg) = (user, user, user);
    }
}

/// What happened as a code of the interface and a sentence.
fn described(error: &StoreError) -> (Code, String) {
    let code = match error {
        StoreError::AlreadyExists(_) => Code::AlreadyExists,
        StoreError::TimedOut { .. } => Code::DeadlineExceeded,
        StoreError::NotFound(_) => Code::NotFound,
        StoreError::Refused(_) => Code::InvalidArgument,
        StoreError::Unreachable(_) => Code::Unavailable,
    };
    (code, error.to_string())
}

/// Does the work of a callback; an error becomes one of the plugin's own, made by the function that it gave.
///
/// # Safety
/// `user` must be the pointer that [`KeyValues::register`] gave, and `make_error` null or valid for the call.
unsafe fn respond<T>(
    user: *mut c_void,
    make_error: *mut sys::PJRT_CallbackError,
    work: impl FnOnce(&dyn Store) -> Result<T, StoreError>,
) -> Result<T, *mut sys::PJRT_Error> {
    // SAFETY: guaranteed by the caller.
    let store = unsafe { &*user.cast::<Arc<dyn Store>>() };
    // A panic must not cross the plugin's frames.
    let done = catch_unwind(AssertUnwindSafe(|| work(&**store)));
    let (code, sentence) = match done {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => described(&error),
        Err(_) => (Code::Internal, "the key-value store panicked".to_string()),
    };
    // SAFETY: guaranteed by the caller; the function copies the sentence.
    Err(unsafe {
        match make_error.as_ref().copied().flatten() {
            Some(make) => make(code.raw(), sentence.as_ptr().cast(), sentence.len()),
            None => null_mut(),
        }
    })
}

/// Values are returned as boxed bytes behind their length, so that they can be freed by their address alone.
const HEADER: usize = size_of::<usize>();

fn returned(value: &[u8]) -> (*mut c_char, usize) {
    let bytes = [&value.len().to_ne_bytes()[..], value].concat().into_boxed_slice();
    let start = Box::into_raw(bytes).cast::<u8>();
    // SAFETY: the box has the header and the value behind it.
    (unsafe { start.add(HEADER) }.cast(), value.len())
}

unsafe extern "C" fn delete(value: *mut c_char) {
    if value.is_null() {
        return;
    }
    // SAFETY: the plugin returns what `returned` made, once: the length lies before the value, in a box of both.
    unsafe {
        let start = value.cast::<u8>().sub(HEADER);
        let length = start.cast::<[u8; HEADER]>().read();
        let all = HEADER + usize::from_ne_bytes(length);
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, all)));
    }
}

unsafe extern "C" fn get(args: *mut sys::PJRT_KeyValueGetCallback_Args) -> *mut sys::PJRT_Error {
    // SAFETY: the plugin passes valid arguments, with our own pointer and key of the size that it states.
    unsafe {
        let args = &mut *args;
        let key = text(args.key, args.key_size);
        let patience = Duration::from_millis(u64::try_from(args.timeout_in_ms).unwrap_or(0));
        match respond(args.user_arg, args.callback_error, |store| store.get(&key, patience)) {
            Ok(value) => {
                (args.value, args.value_size) = returned(&value);
                args.value_deleter_callback = Some(delete);
                null_mut()
            }
            Err(error) => error,
        }
    }
}

unsafe extern "C" fn try_get(args: *mut sys::PJRT_KeyValueTryGetCallback_Args) -> *mut sys::PJRT_Error {
    // SAFETY: as in `get`.
    unsafe {
        let args = &mut *args;
        let key = text(args.key, args.key_size);
        match respond(args.user_arg, args.callback_error, |store| store.try_get(&key)) {
            Ok(value) => {
                (args.value, args.value_size) = returned(&value);
                args.value_deleter_callback = Some(delete);
                null_mut()
            }
            Err(error) => error,
        }
    }
}

unsafe extern "C" fn put(args: *mut sys::PJRT_KeyValuePutCallback_Args) -> *mut sys::PJRT_Error {
    // SAFETY: as in `get`; the value has the size that the plugin states.
    unsafe {
        let args = &mut *args;
        let key = text(args.key, args.key_size);
        let value = slice(args.value.cast::<u8>(), args.value_size);
        respond(args.user_arg, args.callback_error, |store| store.put(&key, value))
            .map_or_else(|error| error, |()| null_mut())
    }
}
