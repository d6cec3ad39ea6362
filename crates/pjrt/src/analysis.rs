//! What the compiler says about an executable before it ever runs.

use crate::named_value::{AttributeValue, NamedValues};
use crate::sys;

/// The memory that every device needs for an executable, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompiledMemory {
    /// The machine code.
    pub code: u64,
    /// The arguments.
    pub arguments: u64,
    /// The outputs, including those that reuse arguments.
    pub outputs: u64,
    /// The part of the outputs that reuses donated arguments.
    pub aliased: u64,
    /// Everything in between.
    pub temporaries: u64,
    /// The compiler's own figure for the most that is live at any time, where the plugin has one (API 0.72).
    pub peak: Option<u64>,
}

impl CompiledMemory {
    pub(crate) fn from_c(args: &sys::PJRT_Executable_GetCompiledMemoryStats_Args, api_minor: i32) -> CompiledMemory {
        const PEAK_SINCE: i32 = 72;
        let bytes = |number: i64| u64::try_from(number).unwrap_or(0);
        // A compiler that does not know a figure leaves it zero.
        let known = |number: i64, since: i32| (api_minor >= since && number > 0).then_some(bytes(number));
        CompiledMemory {
            code: bytes(args.generated_code_size_in_bytes),
            arguments: bytes(args.argument_size_in_bytes),
            outputs: bytes(args.output_size_in_bytes),
            aliased: bytes(args.alias_size_in_bytes),
            temporaries: bytes(args.temp_size_in_bytes),
            peak: known(args.peak_memory_in_bytes, PEAK_SINCE),
        }
    }

    /// What one device has to hold at once while the program runs, if nothing else lives there: the number to compare
    /// with the device's memory.
    pub fn needed(&self) -> u64 {
        (self.code + self.arguments + self.outputs + self.temporaries).saturating_sub(self.aliased)
    }
}

/// What the compiler thinks one run costs every device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct XlaCost {
    /// Floating-point operations.
    pub flops: Option<f64>,
    /// Bytes moved between memory and the compute units.
    pub bytes_accessed: Option<f64>,
    /// Seconds at the speed of light of the device: an estimate from below.
    pub optimal_seconds: Option<f64>,
    /// Everything that the plugin said, by its own names.
    pub properties: NamedValues,
}

impl XlaCost {
    pub(crate) fn new(properties: NamedValues) -> XlaCost {
        let number = |name: &str| properties.get(name).and_then(AttributeValue::as_f64).filter(|number| *number >= 0.0);
        XlaCost {
            flops: number("flops"),
            bytes_accessed: number("bytes accessed"),
            optimal_seconds: number("optimal_seconds"),
            properties,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_an_older_plugin_cannot_know_are_missing() {
        let args = sys::PJRT_Executable_GetCompiledMemoryStats_Args {
            generated_code_size_in_bytes: 1,
            argument_size_in_bytes: 100,
            output_size_in_bytes: 90,
            alias_size_in_bytes: 80,
            temp_size_in_bytes: 50,
            peak_memory_in_bytes: 155,
            ..Default::default()
        };
        let memory = CompiledMemory::from_c(&args, 71);
        assert_eq!((memory.peak, memory.needed()), (None, 161));
        assert_eq!(CompiledMemory::from_c(&args, 72).peak, Some(155));
    }

    #[test]
    fn negative_costs_mean_unknown() {
        let cost = XlaCost::new(NamedValues::from([
            ("flops".to_string(), AttributeValue::Float(128.0)),
            ("optimal_seconds".to_string(), AttributeValue::Float(-1.0)),
        ]));
        assert_eq!((cost.flops, cost.bytes_accessed, cost.optimal_seconds), (Some(128.0), None, None));
    }
}
