//! Topologies for ahead-of-time compilation: the boards need not be attached.

use crate::boards::Board;
use crate::compile_options::{ProgramText, XlaCompileOptions};
use crate::device::DeviceDescription;
use crate::error::{PjrtError, Result};
use crate::executable::CompiledExecutable;
use crate::named_value::{AttributeValue, NamedValues, from_c, slice, text, to_c};
use crate::plugin::{Plugin, call};
use crate::sys;

/// A description of a board, such as `v3:2x2x1`, to compile for.
pub struct Topology {
    plugin: Plugin,
    topology: *mut sys::PJRT_TopologyDescription,
}

// SAFETY: a topology is an immutable description; the interface allows its use from any thread.
unsafe impl Send for Topology {}
// SAFETY: as above.
unsafe impl Sync for Topology {}

impl Topology {
    /// The board of that name in the plugin's own notation; see [`crate::boards`] for the usual names.
    pub fn new(plugin: &Plugin, name: &str, options: &NamedValues) -> Result<Topology> {
        let options = to_c(options);
        let mut args = sys::PJRT_TopologyDescription_Create_Args {
            topology_name: name.as_ptr().cast(),
            topology_name_size: name.len(),
            create_options: options.as_ptr(),
            num_options: options.len(),
            ..Default::default()
        };
        // SAFETY: name and options need to live for the call only.
        unsafe { call!(plugin, PJRT_TopologyDescription_Create, args)? };
        if args.topology.is_null() {
            return Err(PjrtError::Broken(format!("no topology came back for {name}")));
        }
        Ok(Topology { plugin: plugin.clone(), topology: args.topology })
    }

    /// A TPU board.
    pub fn for_board(plugin: &Plugin, board: &Board) -> Result<Topology> {
        Topology::new(plugin, board.topology, &board.options())
    }

    /// Bytes of memory that a program may use on every device, where the plugin reports it.
    pub fn memory_limit(&self) -> Result<Option<u64>> {
        match self.attributes()?.get("device_memory_bytes_limit") {
            Some(AttributeValue::Int(bytes)) => Ok(u64::try_from(*bytes).ok()),
            _ => Ok(None),
        }
    }

    /// The platform: `tpu`, `cuda`, …
    pub fn platform_name(&self) -> Result<String> {
        let mut args =
            sys::PJRT_TopologyDescription_PlatformName_Args { topology: self.topology, ..Default::default() };
        // SAFETY: the topology is alive, and the text that it owns is copied.
        unsafe {
            call!(self.plugin, PJRT_TopologyDescription_PlatformName, args)?;
            Ok(text(args.platform_name, args.platform_name_size))
        }
    }

    /// The version of the compiler, in its own words. Executables are only good for the same version.
    pub fn platform_version(&self) -> Result<String> {
        // SAFETY: the topology is alive.
        unsafe { version_of(&self.plugin, self.topology) }
    }

    /// The plugin that knows this board.
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// The devices of the board.
    pub fn devices(&self) -> Result<Vec<DeviceDescription>> {
        let mut args =
            sys::PJRT_TopologyDescription_GetDeviceDescriptions_Args { topology: self.topology, ..Default::default() };
        // SAFETY: the topology is alive, and so are its descriptions, which are copied.
        unsafe {
            call!(self.plugin, PJRT_TopologyDescription_GetDeviceDescriptions, args)?;
            let descriptions = slice(args.descriptions, args.num_descriptions);
            descriptions.iter().map(|&description| DeviceDescription::read(&self.plugin, description)).collect()
        }
    }

    /// Further attributes of the board.
    pub fn attributes(&self) -> Result<NamedValues> {
        let mut args = sys::PJRT_TopologyDescription_Attributes_Args { topology: self.topology, ..Default::default() };
        // SAFETY: the topology is alive, and so are its attributes, which are copied.
        unsafe {
            call!(self.plugin, PJRT_TopologyDescription_Attributes, args)?;
            Ok(from_c(args.attributes, args.num_attributes))
        }
    }

    /// Compiles `program`, StableHLO as MLIR text, for this board. Blocks until it is done.
    pub fn compile(&self, program: &str, options: &XlaCompileOptions) -> Result<CompiledExecutable> {
        let compiled = self.compile_with(program, options);
        let Err(PjrtError::Status { message, .. }) = &compiled else { return compiled };
        options.after(message).map_or(compiled, |options| self.compile_with(program, &options))
    }

    fn compile_with(&self, program: &str, options: &XlaCompileOptions) -> Result<CompiledExecutable> {
        let program = ProgramText::mlir(program);
        let options = options.with_plugin_defaults(&self.plugin).encode();
        let mut args = sys::PJRT_Compile_Args {
            topology: self.topology,
            program: program.as_c(),
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..Default::default()
        };
        // SAFETY: the topology is alive; program and options need to live for the call only; a null client means that
        // there is none to measure kernels on.
        unsafe {
            call!(self.plugin, PJRT_Compile, args)?;
            CompiledExecutable::new(self.plugin.clone(), args.executable)
        }
    }
}

/// The version that a topology states, be it of a board elsewhere or of a client's own devices.
///
/// # Safety
/// `topology` must be a live topology of `plugin`.
pub(crate) unsafe fn version_of(plugin: &Plugin, topology: *mut sys::PJRT_TopologyDescription) -> Result<String> {
    let mut args = sys::PJRT_TopologyDescription_PlatformVersion_Args { topology, ..Default::default() };
    // SAFETY: the caller guarantees the topology, and the text that it owns is copied.
    unsafe {
        call!(plugin, PJRT_TopologyDescription_PlatformVersion, args)?;
        Ok(text(args.platform_version, args.platform_version_size))
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        let mut args = sys::PJRT_TopologyDescription_Destroy_Args { topology: self.topology, ..Default::default() };
        // SAFETY: the topology is ours and not used again.
        let _ = unsafe { call!(self.plugin, PJRT_TopologyDescription_Destroy, args) };
    }
}
