//! What a compiler is given: the program's text, and the few fields of XLA's `CompileOptionsProto` that Octant uses.

use crate::plugin::Plugin;
use crate::proto::Message;
use crate::sys;
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// The value of a compiler flag.
#[derive(Debug, Clone, PartialEq)]
pub enum CompilerFlag {
    /// Text; XLA also parses numbers and bools from text.
    Text(String),
    /// A bool.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Double(f64),
}

/// How to compile a program.
#[derive(Debug, Clone, PartialEq)]
pub struct XlaCompileOptions {
    /// How many devices one copy of the program is partitioned over (SPMD).
    pub partitions: usize,
    /// How many copies run side by side. Octant expresses data parallelism by partitions, so this is 1.
    pub replicas: usize,
    /// The ids of the devices, replica by replica; empty leaves the choice to the plugin.
    pub device_ids: Vec<i64>,
    /// Compiler flags by name, without dashes: `xla_gpu_autotune_level`, `xla_tpu_enable_…`.
    pub flags: BTreeMap<String, CompilerFlag>,
    /// Flags that are dropped when the plugin does not know them.
    pub optional_flags: BTreeMap<String, CompilerFlag>,
}

impl Default for XlaCompileOptions {
    fn default() -> Self {
        let (flags, optional_flags) = (BTreeMap::new(), BTreeMap::new());
        XlaCompileOptions { partitions: 1, replicas: 1, device_ids: Vec::new(), flags, optional_flags }
    }
}

impl XlaCompileOptions {
    /// One program partitioned over `partitions` devices.
    pub fn spmd(partitions: usize) -> XlaCompileOptions {
        XlaCompileOptions { partitions, ..Default::default() }
    }

    /// The same with one more compiler flag.
    pub fn with_flag(mut self, name: &str, value: CompilerFlag) -> XlaCompileOptions {
        self.flags.insert(name.to_string(), value);
        self
    }

    /// The same with one more optional flag.
    pub fn with_optional_flag(mut self, name: &str, value: CompilerFlag) -> XlaCompileOptions {
        self.optional_flags.insert(name.to_string(), value);
        self
    }

    /// The same without optional flags, if `refusal`, the compiler's message, names one of them: plugins differ in the flags they
    /// know.
    pub(crate) fn after(&self, refusal: &str) -> Option<XlaCompileOptions> {
        let is_optional = self.optional_flags.keys().any(|name| refusal.contains(name.as_str()));
        is_optional.then(|| XlaCompileOptions { optional_flags: BTreeMap::new(), ..self.clone() })
    }

    /// Adds what the plugin's surroundings require and the user did not set: where a CUDA plugin finds `libdevice`.
    pub(crate) fn with_plugin_defaults(&self, plugin: &Plugin) -> XlaCompileOptions {
        let mut options = self.clone();
        if let Some(root) = plugin.cuda_root() {
            let root = CompilerFlag::Text(root.to_string_lossy().into_owned());
            options.flags.entry("xla_gpu_cuda_data_dir".to_string()).or_insert(root);
        }
        options
    }

    /// The serialized `CompileOptionsProto`. Equal options give equal bytes, so they can be part of a cache key.
    pub fn encode(&self) -> Vec<u8> {
        let mut options = Message::default();
        options.message(3, &self.build_options());
        for (name, flag) in self.flags.iter().chain(&self.optional_flags) {
            let mut entry = Message::default();
            entry.bytes(1, name.as_bytes()).message(2, &flag.encode());
            options.message(7, &entry);
        }
        options.into_bytes()
    }

    /// `ExecutableBuildOptionsProto`.
    fn build_options(&self) -> Message {
        const NO_PARTICULAR_DEVICE: i64 = -1;
        let mut build = Message::default();
        build.int(1, NO_PARTICULAR_DEVICE).int(4, self.replicas as i64).int(5, self.partitions as i64).bool(6, true); // use_spmd_partitioning
        if !self.device_ids.is_empty() {
            build.message(9, &self.device_assignment());
        }
        build.bool(19, true); // use_shardy_partitioner
        build
    }

    /// `DeviceAssignmentProto`: for every partition, the devices of its replicas.
    fn device_assignment(&self) -> Message {
        let mut assignment = Message::default();
        assignment.int(1, self.replicas as i64).int(2, self.partitions as i64);
        for partition in 0..self.partitions {
            let replicas = self.device_ids.iter().skip(partition).step_by(self.partitions).copied();
            let mut computation = Message::default();
            computation.packed_ints(1, &replicas.collect::<Vec<_>>());
            assignment.message(3, &computation);
        }
        assignment
    }
}

impl CompilerFlag {
    /// `OptionOverrideProto`.
    fn encode(&self) -> Message {
        let mut value = Message::default();
        match self {
            CompilerFlag::Text(text) => value.bytes(1, text.as_bytes()),
            CompilerFlag::Bool(truth) => value.chosen_int(2, *truth as i64),
            CompilerFlag::Int(number) => value.chosen_int(3, *number),
            CompilerFlag::Double(number) => value.chosen_double(4, *number),
        };
        value
    }
}

/// The C form of a program; borrows the text.
pub(crate) struct ProgramText<'a> {
    program: sys::PJRT_Program,
    text: PhantomData<&'a str>,
}

impl<'a> ProgramText<'a> {
    /// StableHLO as MLIR text.
    pub(crate) fn mlir(text: &'a str) -> ProgramText<'a> {
        const FORMAT: &str = "mlir";
        let program = sys::PJRT_Program {
            // The field is mutable because other functions write through it; the compilers only read.
            code: text.as_ptr().cast_mut().cast(),
            code_size: text.len(),
            format: FORMAT.as_ptr().cast(),
            format_size: FORMAT.len(),
            ..Default::default()
        };
        ProgramText { program, text: PhantomData }
    }

    pub(crate) fn as_c(&self) -> *const sys::PJRT_Program {
        &self.program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    // The golden bytes come from protobuf itself: golden/compile_options.py.

    #[test]
    fn one_device_equals_the_golden_bytes() {
        assert_eq!(hex(&XlaCompileOptions::default().encode()), "1a1408ffffffffffffffffff01200128013001980101");
    }

    #[test]
    fn a_device_assignment_equals_the_golden_bytes() {
        let options = XlaCompileOptions {
            partitions: 3,
            replicas: 2,
            device_ids: vec![0, 1, 2, 300, 4, 5],
            ..Default::default()
        };
        let golden = "1a2d08ffffffffffffffffff012002280330014a17080210031a050a0300ac021a040a0201041a040a020205980101";
        assert_eq!(hex(&options.encode()), golden);
    }

    #[test]
    fn flags_equal_the_golden_bytes() {
        let options = XlaCompileOptions::spmd(8)
            .with_flag("an_int", CompilerFlag::Int(-2))
            .with_flag("a_text", CompilerFlag::Text("x".into()))
            .with_flag("a_bool", CompilerFlag::Bool(false))
            .with_flag("a_double", CompilerFlag::Double(0.5));
        let golden = concat!(
            "1a1408ffffffffffffffffff01200128083001980101",
            "3a0c0a06615f626f6f6c12021000",
            "3a150a08615f646f75626c65120921000000000000e03f",
            "3a0d0a06615f7465787412030a0178",
            "3a150a06616e5f696e74120b18feffffffffffffffff01",
        );
        assert_eq!(hex(&options.encode()), golden);
    }
}
