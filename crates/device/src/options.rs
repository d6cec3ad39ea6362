//! What a user may choose about a device.

use crate::error::{DeviceError, Result};
use octant_pjrt::backend::{Log, Notice};
use octant_pjrt::{AttributeValue, MatmulPrecision, NamedValues, PjrtOptions};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// The variable of [`Options::repeatable`]: 1 allows programs that vary.
const NONDETERMINISTIC: &str = "OCTANT_NONDETERMINISTIC";
/// The variable of [`Options::plain_attention`].
const ATTENTION: &str = "OCTANT_GPU_ATTENTION";
/// The variable of [`Options::gpu_memory`].
const GPU_MEMORY: &str = "OCTANT_GPU_MEMORY";

/// How a device is opened.
#[derive(Clone)]
pub struct Options {
    /// Threads of the processor's engine; all cores if not given.
    pub threads: Option<usize>,
    /// Products as exact as their operands: f32 is not rounded to fewer bits on GPUs and TPUs.
    pub exact: bool,
    /// On GPUs: programs give the same bits in every run. Without, faster kernels may add in another order each time.
    pub repeatable: bool,
    /// On GPUs: attention by plain products, for comparisons with cuDNN's fused kernels.
    pub plain_attention: bool,
    /// The share of a GPU's memory, in (0, 1], that the process allocates when it opens the device. The CUDA plugin takes
    /// three quarters if none is given, so processes that share a GPU must name less.
    pub gpu_memory: Option<f32>,
    /// Receives which device was chosen and why, and what is being compiled.
    pub log: Log,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: None,
            exact: false,
            repeatable: true,
            plain_attention: false,
            gpu_memory: None,
            log: Arc::new(|_| ()),
        }
    }
}

impl Options {
    /// The options that `OCTANT_NONDETERMINISTIC`, `OCTANT_GPU_ATTENTION` and `OCTANT_GPU_MEMORY` set. A program reads
    /// them once, where it starts.
    pub fn from_environment() -> Result<Options> {
        Options::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Options> {
        let text = |name: &str| variable(name).map(|value| value.to_string_lossy().into_owned());
        let repeatable = match text(NONDETERMINISTIC).as_deref() {
            None | Some("" | "0") => true,
            Some("1") => false,
            Some(other) => return Err(wrong(NONDETERMINISTIC, "0 or 1", other)),
        };
        let plain_attention = match text(ATTENTION).as_deref() {
            None | Some("") => false,
            Some("plain") => true,
            Some(other) => return Err(wrong(ATTENTION, "\"plain\", or not set for fused kernels", other)),
        };
        let gpu_memory = text(GPU_MEMORY).map(|share| match share.parse() {
            Ok(fraction) if is_share(fraction) => Ok(fraction),
            _ => Err(wrong(GPU_MEMORY, "a share of the GPU's memory between 0 and 1, such as 0.4", &share)),
        });
        Ok(Options { repeatable, plain_attention, gpu_memory: gpu_memory.transpose()?, ..Options::default() })
    }

    /// Options that were given and change nothing on a backend of that name, each in a sentence that says why.
    pub(crate) fn without_effect(&self, backend: &str) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.threads.is_some() && backend != "cpu" {
            sentences
                .push(format!("the number of threads has no effect on {backend}: it is for the processor's engine"));
        }
        if !self.repeatable && backend != "cuda" {
            sentences.push(format!(
                "nondeterministic programs have no effect on {backend}: only GPUs have faster ones that vary"
            ));
        }
        sentences
    }

    /// A sentence for the log.
    pub(crate) fn message(&self, sentence: &str) {
        (self.log)(Notice::Message(sentence));
    }

    /// What a plugin's client is created with; of GPUs only these, if any are named.
    pub(crate) fn of_client(&self, plugin: &Path, gpus: &[i64]) -> Result<NamedValues> {
        let mut values = NamedValues::new();
        if !gpus.is_empty() {
            values.insert("visible_devices".into(), AttributeValue::Ints(gpus.to_vec()));
        }
        let is_cuda = plugin.file_name().is_some_and(|name| name.to_string_lossy().contains("cuda"));
        if let Some(share) = self.gpu_memory.filter(|_| is_cuda) {
            if !is_share(share) {
                return Err(DeviceError::Option(format!("the share of a GPU's memory is in (0, 1], not {share}")));
            }
            values.insert("memory_fraction".into(), AttributeValue::Float(share));
        }
        Ok(values)
    }

    /// What its programs are compiled with.
    pub(crate) fn of_programs(&self) -> PjrtOptions {
        let precision = if self.exact { MatmulPrecision::Highest } else { MatmulPrecision::Fast };
        PjrtOptions { precision, repeatable: self.repeatable, plain_attention: self.plain_attention }
    }
}

fn is_share(fraction: f32) -> bool {
    fraction > 0.0 && fraction <= 1.0
}

fn wrong(variable: &str, expected: &str, found: &str) -> DeviceError {
    DeviceError::Option(format!("{variable} must be {expected}, not \"{found}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &'static str, value: &'static str) -> Result<Options> {
        Options::from_variables(|variable| (variable == name).then(|| value.into()))
    }

    #[test]
    fn a_share_of_the_memory_is_a_fraction() {
        let cuda = Path::new("/x/xla_cuda_plugin.so");
        let values = read(GPU_MEMORY, "0.4").unwrap().of_client(cuda, &[1]).unwrap();
        assert_eq!(values.get("memory_fraction"), Some(&AttributeValue::Float(0.4)));
        assert_eq!(values.get("visible_devices"), Some(&AttributeValue::Ints(vec![1])));
        for share in ["", "0", "1.5", "-1", "40%", "NaN"] {
            assert!(
                read(GPU_MEMORY, share).is_err_and(|error| error.to_string().contains("between 0 and 1")),
                "{share}"
            );
        }
        assert!(read(GPU_MEMORY, "0.4").unwrap().of_client(Path::new("/x/libtpu.so"), &[]).unwrap().is_empty());
        assert!(Options { gpu_memory: Some(2.0), ..Options::default() }.of_client(cuda, &[]).is_err());
    }

    #[test]
    fn options_of_other_devices_were_accepted_without_a_word() {
        let options = Options { threads: Some(2), repeatable: false, ..Options::default() };
        let notes = |backend: &str| options.without_effect(backend).join("; ");
        assert!(
            notes("cpu").contains("nondeterministic programs have no effect on cpu")
                && !notes("cpu").contains("threads")
        );
        assert!(notes("cuda").contains("threads has no effect on cuda") && !notes("cuda").contains("nondeterministic"));
        assert_eq!(options.without_effect("tpu").len(), 2);
        assert!(Options::default().without_effect("tpu").is_empty());
    }

    #[test]
    fn choices_reach_the_programs_as_values_and_unknown_ones_are_refused() {
        assert_eq!(Options::from_variables(|_| None).unwrap().of_programs(), PjrtOptions::default());
        assert!(!read(NONDETERMINISTIC, "1").unwrap().of_programs().repeatable);
        assert!(read(ATTENTION, "plain").unwrap().of_programs().plain_attention);
        assert!(read(NONDETERMINISTIC, "yes").is_err() && read(ATTENTION, "fused").is_err());
        let exact = Options { exact: true, ..Options::default() };
        assert_eq!(exact.of_programs().precision, MatmulPrecision::Highest);
    }
}
