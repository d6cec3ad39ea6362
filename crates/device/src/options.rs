//! What a user may choose about a device.

use crate::error::{DeviceError, Result};
use octant_cluster::Cluster;
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
/// The variable of [`Options::of_plugin`].
const OF_PLUGIN: &str = "OCTANT_PLUGIN_OPTIONS";

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
    /// Further options of the plugin, by the names that it gives them: `preallocate`, `enable_mock_nccl`, …
    pub of_plugin: NamedValues,
    /// The processes whose devices work together; the plugin finds those of the others through their store.
    pub cluster: Option<Arc<Cluster>>,
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
            of_plugin: NamedValues::new(),
            cluster: None,
            log: Arc::new(|_| ()),
        }
    }
}

impl Options {
    /// The options that `OCTANT_NONDETERMINISTIC`, `OCTANT_GPU_ATTENTION`, `OCTANT_GPU_MEMORY` and `OCTANT_PLUGIN_OPTIONS` set.
    /// A program reads them once, where it starts.
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
        let of_plugin = text(OF_PLUGIN).map(|words| plugin_options(&words)).transpose()?.unwrap_or_default();
        let gpu_memory = gpu_memory.transpose()?;
        Ok(Options { repeatable, plain_attention, gpu_memory, of_plugin, ..Options::default() })
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
        if !self.of_plugin.is_empty() && backend == "cpu" {
            sentences.push(format!("{OF_PLUGIN} has no effect on {backend}: it is for plugins"));
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
        let name = plugin.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (is_cuda, is_tpu) = (name.contains("cuda"), name.contains("tpu"));
        // libtpu finds the other hosts of its pod by itself.
        if let Some(place) = self.cluster.as_ref().map(|cluster| cluster.place()).filter(|_| !is_tpu) {
            values.insert("node_id".into(), AttributeValue::Int(place.rank as i64));
            values.insert("num_nodes".into(), AttributeValue::Int(place.ranks as i64));
            // Of several processes on a host each has its device, unless its launcher shows it one only.
            if is_cuda && place.local_ranks > 1 && gpus.is_empty() && visible_gpus() != Some(1) {
                values.insert("visible_devices".into(), AttributeValue::Ints(vec![place.local_rank as i64]));
            }
        }
        if !gpus.is_empty() {
            values.insert("visible_devices".into(), AttributeValue::Ints(gpus.to_vec()));
        }
        if let Some(share) = self.gpu_memory.filter(|_| is_cuda) {
            if !is_share(share) {
                return Err(DeviceError::Option(format!("the share of a GPU's memory is in (0, 1], not {share}")));
            }
            values.insert("memory_fraction".into(), AttributeValue::Float(share));
        }
        values.extend(self.of_plugin.clone());
        Ok(values)
    }

    /// What its programs are compiled with.
    pub(crate) fn of_programs(&self) -> PjrtOptions {
        let precision = if self.exact { MatmulPrecision::Highest } else { MatmulPrecision::Fast };
        PjrtOptions { precision, repeatable: self.repeatable, plain_attention: self.plain_attention }
    }
}

/// How many GPUs the launcher shows this process, where it says so.
fn visible_gpus() -> Option<usize> {
    let list = std::env::var("CUDA_VISIBLE_DEVICES").ok()?;
    Some(list.split(',').filter(|gpu| !gpu.trim().is_empty()).count())
}

/// `name=value` words: bools, numbers, lists of whole numbers such as `[0,1]`, and text.
fn plugin_options(words: &str) -> Result<NamedValues> {
    let option = |word: &str| {
        let (name, value) = word.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())?;
        let list = value.strip_prefix('[').and_then(|value| value.strip_suffix(']'));
        let value = match (value, list) {
            ("true", _) => AttributeValue::Bool(true),
            ("false", _) => AttributeValue::Bool(false),
            (_, Some(list)) => {
                AttributeValue::Ints(list.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?)
            }
            (value, None) => match (value.parse(), value.parse()) {
                (Ok(int), _) => AttributeValue::Int(int),
                (_, Ok(float)) => AttributeValue::Float(float),
                _ => AttributeValue::Text(value.into()),
            },
        };
        Some((name.to_string(), value))
    };
    let options = words.split_whitespace().map(|word| option(word).ok_or(word));
    let options: std::result::Result<NamedValues, &str> = options.collect();
    options.map_err(|word| wrong(OF_PLUGIN, "words such as preallocate=false", word))
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
    fn options_of_the_plugin_have_the_types_that_it_expects() {
        let options =
            read(OF_PLUGIN, "preallocate=false num_nodes=64 x=0.5 visible_devices=[0,2] mock_gpu_topology=8x8x1")
                .unwrap();
        let values = options.of_client(Path::new("/x/xla_cuda_plugin.so"), &[]).unwrap();
        assert_eq!(values.get("preallocate"), Some(&AttributeValue::Bool(false)));
        assert_eq!(values.get("num_nodes"), Some(&AttributeValue::Int(64)));
        assert_eq!(values.get("x"), Some(&AttributeValue::Float(0.5)));
        assert_eq!(values.get("visible_devices"), Some(&AttributeValue::Ints(vec![0, 2])));
        assert_eq!(values.get("mock_gpu_topology"), Some(&AttributeValue::Text("8x8x1".into())));
        assert!(read(OF_PLUGIN, "preallocate").is_err() && read(OF_PLUGIN, "visible_devices=[0,x]").is_err());
        assert!(options.without_effect("cpu").iter().any(|note| note.contains("no effect on cpu")));
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
