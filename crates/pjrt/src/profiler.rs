//! Recording what the devices do, for plugins that have the profiler extension.

use crate::error::{Code, PjrtError, Result};
use crate::named_value::{slice, text};
use crate::plugin::Plugin;
use crate::proto::Message;
use crate::sys;
use std::ptr::null_mut;

/// A running recording. It covers everything that the plugin does between [`start`](Profiler::start) and
/// [`finish`](Profiler::finish).
pub struct Profiler {
    api: *const sys::PLUGIN_Profiler_Api,
    profiler: *mut sys::PLUGIN_Profiler,
    /// The functions lie in the plugin.
    _plugin: Plugin,
}

impl Profiler {
    /// Starts a recording.
    pub fn start(plugin: &Plugin) -> Result<Profiler> {
        let api = plugin.profiler_api().ok_or(PjrtError::NoFunction { function: "profiler extension" })?;
        let options = options();
        let mut create = sys::PLUGIN_Profiler_Create_Args {
            struct_size: size_of::<sys::PLUGIN_Profiler_Create_Args>(),
            options: options.as_ptr().cast(),
            options_size: options.len(),
            profiler: null_mut(),
        };
        // SAFETY: `api` lives as long as the process, and the options need to live for the call only.
        unsafe { call(api, "profiler create", (*api).create, &mut create)? };
        let profiler = Profiler { api, profiler: create.profiler, _plugin: plugin.clone() };
        // SAFETY: `api` as above, and the profiler is alive.
        unsafe { call(api, "profiler start", (*api).start, &mut profiler.args())? };
        Ok(profiler)
    }

    /// Ends the recording and returns it as a serialized `XSpace`, the contents of an `.xplane.pb` file, which
    /// TensorBoard's profiler and Perfetto's converters read.
    pub fn finish(self) -> Result<Vec<u8>> {
        let mut collect = sys::PLUGIN_Profiler_CollectData_Args {
            struct_size: size_of::<sys::PLUGIN_Profiler_CollectData_Args>(),
            profiler: self.profiler,
            buffer: null_mut(),
            buffer_size_in_bytes: 0,
        };
        // SAFETY: `api` lives as long as the process, and the profiler as long as `self`.
        unsafe {
            call(self.api, "profiler stop", (*self.api).stop, &mut self.args())?;
            call(self.api, "profiler data", (*self.api).collect_data, &mut collect)?;
        }
        if !collect.buffer.is_null() {
            // SAFETY: the plugin has filled in a buffer of its own, which it keeps until the profiler is destroyed.
            let recorded = unsafe { slice(collect.buffer.cast_const(), collect.buffer_size_in_bytes) };
            // Such a buffer is one zero byte longer than the recording.
            return Ok(recorded.strip_suffix(&[0]).unwrap_or(recorded).to_vec());
        }
        let mut recorded = vec![0u8; collect.buffer_size_in_bytes];
        collect.buffer = recorded.as_mut_ptr();
        // SAFETY: as above; the buffer has the size that the plugin requested.
        unsafe { call(self.api, "profiler data", (*self.api).collect_data, &mut collect)? };
        Ok(recorded)
    }

    fn args(&self) -> sys::PLUGIN_Profiler_Args {
        sys::PLUGIN_Profiler_Args { struct_size: size_of::<sys::PLUGIN_Profiler_Args>(), profiler: self.profiler }
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        // SAFETY: the profiler is ours and not used again; a recording that still runs is stopped by its destructor.
        let _ = unsafe { call(self.api, "profiler destroy", (*self.api).destroy, &mut self.args()) };
    }
}

/// `ProfileOptions`: host and device tracing on, the program's text included.
fn options() -> Vec<u8> {
    let mut options = Message::default();
    let (host_level, device_level, version) = (2, 1, 1);
    options.int(2, host_level).int(3, device_level).int(5, version).bool(7, true);
    options.into_bytes()
}

/// Calls a function of the profiler, whose errors are of a kind of their own.
///
/// # Safety
/// `api` must be a profiler's table, and every pointer in `args` what the function expects.
unsafe fn call<A>(
    api: *const sys::PLUGIN_Profiler_Api,
    name: &'static str,
    function: sys::ProfilerCall<A>,
    args: &mut A,
) -> Result<()> {
    let function = function.ok_or(PjrtError::NoFunction { function: name })?;
    // SAFETY: guaranteed by the caller; an error that comes back is read, then freed.
    unsafe {
        let error = function(args);
        if error.is_null() {
            return Ok(());
        }
        let mut message = sys::PLUGIN_Profiler_Error_Message_Args {
            struct_size: size_of::<sys::PLUGIN_Profiler_Error_Message_Args>(),
            private: null_mut(),
            error,
            message: std::ptr::null(),
            message_size: 0,
        };
        if let Some(read) = (*api).error_message {
            read(&mut message);
        }
        let words = text(message.message, message.message_size);
        if let Some(free) = (*api).error_destroy {
            free(&mut sys::PLUGIN_Profiler_Error_Destroy_Args {
                struct_size: size_of::<sys::PLUGIN_Profiler_Error_Destroy_Args>(),
                private: null_mut(),
                error,
            });
        }
        Err(PjrtError::Status { code: Code::Unknown, message: words })
    }
}
