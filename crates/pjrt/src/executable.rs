//! Executables: what the compiler made of a program, and what it costs.

use crate::analysis::{CompiledMemory, XlaCost};
use crate::error::{PjrtError, Result};
use crate::named_value::{from_c, slice, text};
use crate::plugin::{Plugin, call};
use crate::sys;

/// A compiled program, not yet on any device: it can be examined and stored.
pub struct CompiledExecutable {
    plugin: Plugin,
    executable: *mut sys::PJRT_Executable,
}

// SAFETY: the interface allows executables to be used from any thread.
unsafe impl Send for CompiledExecutable {}
// SAFETY: as above.
unsafe impl Sync for CompiledExecutable {}

impl CompiledExecutable {
    /// # Safety
    /// `executable` must be null or a live executable of `plugin` that is destroyed only here.
    pub(crate) unsafe fn new(plugin: Plugin, executable: *mut sys::PJRT_Executable) -> Result<CompiledExecutable> {
        if executable.is_null() {
            return Err(PjrtError::Broken("compilation succeeded without an executable".into()));
        }
        Ok(CompiledExecutable { plugin, executable })
    }

    pub(crate) fn raw(&self) -> *mut sys::PJRT_Executable {
        self.executable
    }

    /// The name of the program's module.
    pub fn name(&self) -> Result<String> {
        let mut args = sys::PJRT_Executable_Name_Args { executable: self.executable, ..Default::default() };
        // SAFETY: the executable is alive, and the text that it owns is copied.
        unsafe {
            call!(self.plugin, PJRT_Executable_Name, args)?;
            Ok(text(args.executable_name, args.executable_name_size))
        }
    }

    /// How many outputs every device produces.
    pub fn outputs(&self) -> Result<usize> {
        let mut args = sys::PJRT_Executable_NumOutputs_Args { executable: self.executable, ..Default::default() };
        // SAFETY: the executable is alive.
        unsafe { call!(self.plugin, PJRT_Executable_NumOutputs, args)? };
        Ok(args.num_outputs)
    }

    /// How many devices one copy of the program is partitioned over.
    pub fn partitions(&self) -> Result<usize> {
        let mut args = sys::PJRT_Executable_NumPartitions_Args { executable: self.executable, ..Default::default() };
        // SAFETY: the executable is alive.
        unsafe { call!(self.plugin, PJRT_Executable_NumPartitions, args)? };
        Ok(args.num_partitions)
    }

    /// Bytes that identify the executable: equal inputs to the same compiler give equal fingerprints.
    pub fn fingerprint(&self) -> Result<Vec<u8>> {
        let mut args = sys::PJRT_Executable_Fingerprint_Args { executable: self.executable, ..Default::default() };
        // SAFETY: the executable is alive, and the bytes that it owns are copied.
        unsafe {
            call!(self.plugin, PJRT_Executable_Fingerprint, args)?;
            Ok(slice(args.executable_fingerprint.cast::<u8>(), args.executable_fingerprint_size).to_vec())
        }
    }

    /// What memory every device needs, as the compiler planned it.
    pub fn memory(&self) -> Result<CompiledMemory> {
        let executable = self.executable;
        let mut args = sys::PJRT_Executable_GetCompiledMemoryStats_Args { executable, ..Default::default() };
        // SAFETY: the executable is alive, and the function only fills in numbers.
        unsafe { call!(self.plugin, PJRT_Executable_GetCompiledMemoryStats, args)? };
        Ok(CompiledMemory::from_c(&args, self.plugin.version().minor))
    }

    /// What the compiler thinks the program costs on every device.
    pub fn cost(&self) -> Result<XlaCost> {
        let mut args = sys::PJRT_Executable_GetCostAnalysis_Args { executable: self.executable, ..Default::default() };
        // SAFETY: the executable is alive, and the properties that it owns are copied.
        unsafe {
            call!(self.plugin, PJRT_Executable_GetCostAnalysis, args)?;
            Ok(XlaCost::new(from_c(args.properties, args.num_properties)))
        }
    }

    /// The program after the compiler's passes, in the format that the plugin chooses (mostly a serialized
    /// `HloModuleProtoWithConfig`).
    pub fn optimized_program(&self) -> Result<OptimizedProgram> {
        let mut program = sys::PJRT_Program::default();
        let mut args = sys::PJRT_Executable_OptimizedProgram_Args {
            executable: self.executable,
            program: &mut program,
            ..Default::default()
        };
        // SAFETY: the executable is alive. The first call, without a buffer, returns the size; the second
        // writes that many bytes into `code`, which is large enough.
        unsafe {
            call!(self.plugin, PJRT_Executable_OptimizedProgram, args)?;
            let mut code = vec![0u8; (*args.program).code_size];
            (*args.program).code = code.as_mut_ptr().cast();
            call!(self.plugin, PJRT_Executable_OptimizedProgram, args)?;
            Ok(OptimizedProgram { format: text((*args.program).format, (*args.program).format_size), code })
        }
    }

    /// The executable as bytes, for [`crate::Client::load_serialized`] with the same version of the same plugin.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let mut args = sys::PJRT_Executable_Serialize_Args { executable: self.executable, ..Default::default() };
        // SAFETY: the executable is alive; the bytes are copied before their owner is freed by the deleter that the
        // plugin supplied for it, exactly once.
        unsafe {
            call!(self.plugin, PJRT_Executable_Serialize, args)?;
            let bytes = slice(args.serialized_bytes.cast::<u8>(), args.serialized_bytes_size).to_vec();
            if let Some(delete) = args.serialized_executable_deleter {
                delete(args.serialized_executable);
            }
            Ok(bytes)
        }
    }
}

impl Drop for CompiledExecutable {
    fn drop(&mut self) {
        let mut args = sys::PJRT_Executable_Destroy_Args { executable: self.executable, ..Default::default() };
        // SAFETY: the executable is ours and not used again.
        let _ = unsafe { call!(self.plugin, PJRT_Executable_Destroy, args) };
    }
}

/// What [`CompiledExecutable::optimized_program`] returns.
pub struct OptimizedProgram {
    /// `hlo_with_config`, `hlo` or `mlir`.
    pub format: String,
    /// The program in that format.
    pub code: Vec<u8>,
}
