//! Events: work that a plugin has begun and not yet finished.

use crate::error::Result;
use crate::plugin::{Plugin, call};
use crate::sys;
use std::ffi::c_void;

/// Something that happens on a device later. Dropping an event does not cancel the work.
pub struct PjrtEvent {
    plugin: Plugin,
    event: *mut sys::PJRT_Event,
}

// SAFETY: the interface allows events to be used from any thread.
unsafe impl Send for PjrtEvent {}
// SAFETY: as above.
unsafe impl Sync for PjrtEvent {}

impl PjrtEvent {
    /// # Safety
    /// `event` must be a live event of `plugin` that is destroyed only here.
    pub(crate) unsafe fn new(plugin: Plugin, event: *mut sys::PJRT_Event) -> PjrtEvent {
        PjrtEvent { plugin, event }
    }

    /// Waits until the work is done and returns how it went.
    pub fn wait(&self) -> Result<()> {
        let mut args = sys::PJRT_Event_Await_Args { event: self.event, ..Default::default() };
        // SAFETY: the event is alive as long as `self`.
        unsafe { call!(self.plugin, PJRT_Event_Await, args) }
    }

    /// Whether the work is done, well or badly.
    pub fn is_ready(&self) -> Result<bool> {
        let mut args = sys::PJRT_Event_IsReady_Args { event: self.event, ..Default::default() };
        // SAFETY: the event is alive as long as `self`.
        unsafe { call!(self.plugin, PJRT_Event_IsReady, args)? };
        Ok(args.is_ready)
    }

    /// Calls `then` with the outcome, on a thread of the plugin (or at once, when the work is already done). It must be
    /// quick and must not call the plugin.
    pub fn on_ready(&self, then: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        let pending: Box<Pending> = Box::new(Pending { plugin: self.plugin.clone(), then: Box::new(then) });
        let pending = Box::into_raw(pending);
        let mut args = sys::PJRT_Event_OnReady_Args {
            event: self.event,
            callback: Some(run_pending),
            user_arg: pending.cast(),
            ..Default::default()
        };
        // SAFETY: the event is alive, and `pending` stays so until `run_pending` takes it back.
        let registered = unsafe { call!(self.plugin, PJRT_Event_OnReady, args) };
        if registered.is_err() {
            // SAFETY: a callback that was refused is never called, so the box is still ours alone.
            drop(unsafe { Box::from_raw(pending) });
        }
        registered
    }
}

struct Pending {
    plugin: Plugin,
    then: Box<dyn FnOnce(Result<()>) + Send>,
}

/// # Safety
/// Called by the plugin exactly once, with the `user_arg` that [`PjrtEvent::on_ready`] gave it and an error to take over.
unsafe extern "C" fn run_pending(error: *mut sys::PJRT_Error, user_arg: *mut c_void) {
    // SAFETY: `user_arg` is the box that `on_ready` let go of, and this is the only call with it.
    let pending = unsafe { Box::from_raw(user_arg.cast::<Pending>()) };
    // SAFETY: the interface hands the error over to the callback.
    let outcome = unsafe { pending.plugin.take_error(error) };
    // A panic must not travel through the plugin's C++ frames.
    let then = pending.then;
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| then(outcome)));
}

impl Drop for PjrtEvent {
    fn drop(&mut self) {
        let mut args = sys::PJRT_Event_Destroy_Args { event: self.event, ..Default::default() };
        // SAFETY: the event is ours and not used again. A failure to free it leaves nothing to be done.
        let _ = unsafe { call!(self.plugin, PJRT_Event_Destroy, args) };
    }
}
