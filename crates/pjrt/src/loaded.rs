//! Running an executable on its devices.

use crate::buffer::PjrtBuffer;
use crate::client::Client;
use crate::compile_options::{ProgramText, XlaCompileOptions};
use crate::error::{PjrtError, Result};
use crate::event::PjrtEvent;
use crate::executable::CompiledExecutable;
use crate::plugin::call;
use crate::sys;
use std::ptr::null_mut;

/// An executable on its devices, ready to run.
pub struct LoadedExecutable {
    client: Client,
    loaded: *mut sys::PJRT_LoadedExecutable,
    executable: CompiledExecutable,
    outputs: usize,
    devices: usize,
}

// SAFETY: the interface allows executables to be used from any thread.
unsafe impl Send for LoadedExecutable {}
// SAFETY: as above.
unsafe impl Sync for LoadedExecutable {}

/// What [`LoadedExecutable::execute`] started.
pub struct Execution {
    /// The outputs of every device. They can be used at once as arguments of the next execution.
    pub outputs: Vec<Vec<PjrtBuffer>>,
    /// When each device is done.
    pub done: Vec<PjrtEvent>,
}

impl LoadedExecutable {
    /// # Safety
    /// `loaded` must be null or a live loaded executable of `client` that is destroyed only here.
    pub(crate) unsafe fn new(client: Client, loaded: *mut sys::PJRT_LoadedExecutable) -> Result<LoadedExecutable> {
        if loaded.is_null() {
            return Err(PjrtError::Broken("compilation succeeded without an executable".into()));
        }
        let plugin = client.plugin().clone();
        let mut get = sys::PJRT_LoadedExecutable_GetExecutable_Args { loaded_executable: loaded, ..Default::default() };
        let mut list = sys::PJRT_LoadedExecutable_AddressableDevices_Args { executable: loaded, ..Default::default() };
        // SAFETY: the loaded executable is alive; the executable that comes back is ours to free.
        let executable = unsafe {
            call!(plugin, PJRT_LoadedExecutable_GetExecutable, get)?;
            call!(plugin, PJRT_LoadedExecutable_AddressableDevices, list)?;
            CompiledExecutable::new(plugin, get.executable)?
        };
        let outputs = executable.outputs()?;
        Ok(LoadedExecutable { client, loaded, executable, outputs, devices: list.num_addressable_devices })
    }

    /// What the compiler made of the program.
    pub fn executable(&self) -> &CompiledExecutable {
        &self.executable
    }

    /// The client that it was loaded into.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// How many devices it runs on.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Starts the program on all its devices and returns at once.
    ///
    /// `arguments[d]` are the buffers of device `d`, in the order of the program's parameters. Where the program says
    /// that a parameter may become an output (`tf.aliasing_output`, `jax.buffer_donor`), its buffers are donated: they
    /// are deleted by this call. Parameters listed in `keep` are not donated, whatever the program says.
    pub fn execute(&self, arguments: &[Vec<&PjrtBuffer>], keep: &[i64]) -> Result<Execution> {
        let parameters = self.check(arguments)?;
        let raw = |list: &Vec<&PjrtBuffer>| list.iter().map(|buffer| buffer.raw()).collect::<Vec<_>>();
        let arguments: Vec<Vec<*mut sys::PJRT_Buffer>> = arguments.iter().map(raw).collect();
        let argument_lists: Vec<_> = arguments.iter().map(|list| list.as_ptr()).collect();
        let mut outputs = vec![vec![null_mut::<sys::PJRT_Buffer>(); self.outputs]; self.devices];
        let output_lists: Vec<_> = outputs.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let mut done = vec![null_mut::<sys::PJRT_Event>(); self.devices];
        let mut options = sys::PJRT_ExecuteOptions {
            non_donatable_input_indices: keep.as_ptr(),
            num_non_donatable_input_indices: keep.len(),
            ..Default::default()
        };
        let mut args = sys::PJRT_LoadedExecutable_Execute_Args {
            executable: self.loaded,
            options: &mut options,
            argument_lists: argument_lists.as_ptr(),
            num_devices: self.devices,
            num_args: parameters,
            output_lists: output_lists.as_ptr(),
            device_complete_events: done.as_mut_ptr(),
            ..Default::default()
        };
        // SAFETY: executable and buffers are alive; the lists have the lengths stated (`check` saw to the arguments) and
        // live for the call, which writes `self.outputs` buffers per device and one event per device.
        unsafe { call!(self.client.inner.plugin, PJRT_LoadedExecutable_Execute, args)? };
        // SAFETY: buffers and events of a successful execution are new and ours to free.
        let own_buffer = |raw| unsafe { PjrtBuffer::new(self.client.clone(), raw) };
        // SAFETY: as above.
        let own_event = |raw| unsafe { PjrtEvent::new(self.client.inner.plugin.clone(), raw) };
        Ok(Execution {
            outputs: outputs.into_iter().map(|list| list.into_iter().map(own_buffer).collect()).collect(),
            done: done.into_iter().map(own_event).collect(),
        })
    }

    fn check(&self, arguments: &[Vec<&PjrtBuffer>]) -> Result<usize> {
        if arguments.len() != self.devices {
            let (devices, given) = (self.devices, arguments.len());
            let text = format!("the program runs on {devices} devices, but arguments for {given} came");
            return Err(PjrtError::Misuse(text));
        }
        let count = arguments.first().map_or(0, Vec::len);
        match arguments.iter().all(|list| list.len() == count) {
            true => Ok(count),
            false => Err(PjrtError::Misuse("every device needs the same number of arguments".into())),
        }
    }
}

impl Drop for LoadedExecutable {
    fn drop(&mut self) {
        let mut args = sys::PJRT_LoadedExecutable_Destroy_Args { executable: self.loaded, ..Default::default() };
        // SAFETY: the executable is ours and not used again; running executions keep what they need.
        let _ = unsafe { call!(self.client.inner.plugin, PJRT_LoadedExecutable_Destroy, args) };
    }
}

impl Client {
    /// Compiles `program`, StableHLO as MLIR text, for the devices of this client. Blocks until it is done.
    pub fn compile(&self, program: &str, options: &XlaCompileOptions) -> Result<LoadedExecutable> {
        let compiled = self.compile_with(program, options);
        let Err(PjrtError::Status { message, .. }) = &compiled else { return compiled };
        options.after(message).map_or(compiled, |options| self.compile_with(program, &options))
    }

    fn compile_with(&self, program: &str, options: &XlaCompileOptions) -> Result<LoadedExecutable> {
        let program = ProgramText::mlir(program);
        let options = options.with_plugin_defaults(&self.inner.plugin).encode();
        let mut args = sys::PJRT_Client_Compile_Args {
            client: self.inner.client,
            program: program.as_c(),
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..Default::default()
        };
        // SAFETY: the client is alive; program and options need to live for the call only.
        unsafe {
            call!(self.inner.plugin, PJRT_Client_Compile, args)?;
            LoadedExecutable::new(self.clone(), args.executable)
        }
    }

    /// Loads an executable that [`CompiledExecutable::serialize`] stored, on this or another machine with the same plugin.
    pub fn load_serialized(&self, bytes: &[u8]) -> Result<LoadedExecutable> {
        let mut args = sys::PJRT_Executable_DeserializeAndLoad_Args {
            client: self.inner.client,
            serialized_executable: bytes.as_ptr().cast(),
            serialized_executable_size: bytes.len(),
            ..Default::default()
        };
        // SAFETY: the client is alive, and the bytes need to live for the call only.
        unsafe {
            call!(self.inner.plugin, PJRT_Executable_DeserializeAndLoad, args)?;
            LoadedExecutable::new(self.clone(), args.loaded_executable)
        }
    }

    /// Loads an executable that was compiled for a topology equal to this client's.
    pub fn load(&self, executable: &CompiledExecutable) -> Result<LoadedExecutable> {
        let mut args = sys::PJRT_Client_Load_Args {
            client: self.inner.client,
            executable: executable.raw(),
            ..Default::default()
        };
        // SAFETY: client and executable are alive.
        match unsafe { call!(self.inner.plugin, PJRT_Client_Load, args) } {
            // SAFETY: the plugin returns a new loaded executable of this client.
            Ok(()) => unsafe { LoadedExecutable::new(self.clone(), args.loaded_executable) },
            // Plugins before API 0.95 can only load what was stored first.
            Err(PjrtError::NoFunction { .. }) => self.load_serialized(&executable.serialize()?),
            Err(error) => Err(error),
        }
    }
}
