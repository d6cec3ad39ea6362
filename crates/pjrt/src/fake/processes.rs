//! Several processes: they exchange their devices through the caller's table of keys, with the keys and waits of XLA's GPU client.

use super::*;
use std::ffi::c_int;

const SECOND: c_int = 1000;
/// How long node 0 waits for each of the others, and they for it.
const FOR_OTHERS: c_int = 120 * SECOND;
const FOR_FIRST: c_int = 300 * SECOND;

/// The pointer that stands for a device. Its number in the platform does not follow the order of processes, as with devices
/// that are sorted by the network between them.
pub(super) fn device(local: usize, node: usize, nodes: usize) -> usize {
    1000 * nodes + 10 * (local * nodes + node + 1)
}

/// The process of a device.
pub(super) fn node_of(device: usize) -> usize {
    match device / 1000 {
        0 => 0,
        nodes => (device % 1000 / 10 - 1) % nodes,
    }
}

/// The caller's table.
#[derive(Clone, Copy)]
pub(super) struct Table {
    get: PJRT_KeyValueGetCallback,
    get_user: *mut std::ffi::c_void,
    put: PJRT_KeyValuePutCallback,
    put_user: *mut std::ffi::c_void,
}

/// An error that is made by a callback, as XLA makes them: with a code and a sentence.
unsafe extern "C" fn make_error(
    code: PJRT_Error_Code,
    message: *const std::ffi::c_char,
    size: usize,
) -> *mut PJRT_Error {
    // SAFETY: the callback gives a sentence of that size.
    let message = unsafe { crate::named_value::text(message, size) };
    fail(code, Box::leak(message.into_boxed_str()))
}

impl Table {
    pub(super) fn of(args: &PJRT_Client_Create_Args) -> Table {
        Table {
            get: args.kv_get_callback,
            get_user: args.kv_get_user_arg,
            put: args.kv_put_callback,
            put_user: args.kv_put_user_arg,
        }
    }

    /// # Safety
    /// The callbacks must be valid.
    pub(super) unsafe fn get(&self, key: &str, wait: c_int) -> Result<String, *mut PJRT_Error> {
        let mut on_error: PJRT_CallbackError = Some(make_error);
        let mut args = PJRT_KeyValueGetCallback_Args {
            key: key.as_ptr().cast(),
            key_size: key.len(),
            timeout_in_ms: wait,
            callback_error: &mut on_error,
            user_arg: self.get_user,
            ..Default::default()
        };
        let Some(get) = self.get else { return Err(fail(3, "num_nodes > 1 requires a key-value store.")) };
        // SAFETY: guaranteed by the caller; the value is copied, then given back.
        unsafe {
            let error = get(&mut args);
            if !error.is_null() {
                return Err(error);
            }
            let value = crate::named_value::text(args.value, args.value_size);
            args.value_deleter_callback.expect("a value comes with its deleter")(args.value);
            Ok(value)
        }
    }

    /// # Safety
    /// The callbacks must be valid.
    pub(super) unsafe fn put(&self, key: &str, value: &str) -> Result<(), *mut PJRT_Error> {
        let mut on_error: PJRT_CallbackError = Some(make_error);
        let mut args = PJRT_KeyValuePutCallback_Args {
            key: key.as_ptr().cast(),
            key_size: key.len(),
            value: value.as_ptr().cast(),
            value_size: value.len(),
            callback_error: &mut on_error,
            user_arg: self.put_user,
            ..Default::default()
        };
        let Some(put) = self.put else { return Err(fail(3, "num_nodes > 1 requires a key-value store.")) };
        // SAFETY: guaranteed by the caller.
        let error = unsafe { put(&mut args) };
        if error.is_null() { Ok(()) } else { Err(error) }
    }
}

/// Exchanges topologies: every node puts its own, the first gathers them and puts the whole.
///
/// # Safety
/// The callbacks of `args` must be valid.
pub(super) unsafe fn meet(args: &PJRT_Client_Create_Args, node: usize, nodes: usize) -> Result<(), *mut PJRT_Error> {
    const GLOBAL: &str = "global_topology/fake";
    let table = Table::of(args);
    let local = |node: usize| format!("local_topology/fake/{node}");
    // SAFETY: guaranteed by the caller.
    unsafe {
        table.put(&local(node), &devices().len().to_string())?;
        let all = match node {
            0 => {
                let gathered = (0..nodes).map(|node| table.get(&local(node), FOR_OTHERS));
                let all = gathered.collect::<Result<Vec<_>, _>>()?.join(",");
                table.put(GLOBAL, &all)?;
                all
            }
            _ => table.get(GLOBAL, FOR_FIRST)?,
        };
        if all.split(',').any(|count| count != devices().len().to_string()) {
            return Err(fail(3, "The fake's processes have the same number of devices."));
        }
        executor::meet(&table, node, nodes)
    }
}
