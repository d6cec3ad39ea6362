//! Everything that can go wrong, each as one sentence that says what to do.

use crate::memory_text::OutOfMemory;
use std::fmt;
use std::path::PathBuf;

/// The result of any call of a plugin.
pub type Result<T> = std::result::Result<T, PjrtError>;

/// A plugin could not be loaded, or returned an error.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PjrtError {
    /// No plugin of the kind was found anywhere.
    #[error("there is no {kinds} plugin on this machine: `octant plugin install {install}` fetches one")]
    NoPlugin {
        /// What was looked for.
        kinds: String,
        /// What to install.
        install: String,
    },
    /// There is no file at the path.
    #[error("there is no PJRT plugin at {path}; `octant plugin list` shows the ones that are installed", path = path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file is not a shared library that this machine can load.
    #[error("{path} cannot be loaded as a shared library: {reason}", path = path.display())]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// The dynamic loader's own words.
        reason: String,
    },
    /// The plugin was built for a newer C library than this machine has.
    #[error(
        "{path} needs glibc {needed}, and this machine's is older: install an older plugin (`octant plugin install` takes \
         --version), or run in a container with a newer system", path = path.display()
    )]
    NewerGlibc {
        /// The plugin's file.
        path: PathBuf,
        /// The version that it needs.
        needed: String,
    },
    /// A shared library, but without `GetPjrtApi`.
    #[error("{path} is a shared library but no PJRT plugin: it does not export GetPjrtApi", path = path.display())]
    NotAPlugin {
        /// The file.
        path: PathBuf,
    },
    /// libtpu would wait for minutes, and it is too late to prevent it.
    #[error(
        "{path} would wait for a metadata server that is not there: set TPU_SKIP_MDS_QUERY=1 (or, in a program, call \
         octant_pjrt::environment::prepare before starting threads)", path = path.display()
    )]
    Unprepared {
        /// The plugin's file.
        path: PathBuf,
    },
    /// The plugin speaks another major version of the interface.
    #[error(
        "{path} speaks PJRT {major}.{minor}, and Octant speaks {ours}.x: install a plugin that matches with `octant \
         plugin install`", path = path.display(), ours = crate::sys::MAJOR
    )]
    WrongMajor {
        /// The plugin's file.
        path: PathBuf,
        /// Its major version.
        major: i32,
        /// Its minor version.
        minor: i32,
    },
    /// The plugin is older than what Octant needs.
    #[error(
        "{path} speaks PJRT {major}.{minor}, and Octant needs at least 0.{oldest}: install a newer plugin with `octant \
         plugin install`", path = path.display(), oldest = crate::sys::OLDEST_MINOR
    )]
    TooOld {
        /// The plugin's file.
        path: PathBuf,
        /// Its major version.
        major: i32,
        /// Its minor version.
        minor: i32,
    },
    /// The plugin does not have a function that an optional feature needs.
    #[error("this plugin has no {function} (it is older than that function or leaves it out)")]
    NoFunction {
        /// The function's name in the C interface.
        function: &'static str,
    },
    /// The plugin is newer than the structs that Octant was written against, and insists on the new ones.
    #[error("this plugin is newer than Octant understands ({message}): install an older plugin or a newer Octant")]
    TooNew {
        /// The plugin's own words.
        message: String,
    },
    /// libtpu was called for a client on a machine without a TPU.
    #[error(
        "there is no TPU on this machine: run on a TPU machine, use `--device cpu` or `--device cuda`, or let `octant \
         plan` compile for a TPU that is elsewhere"
    )]
    NoTpu {
        /// The plugin's own words.
        message: String,
    },
    /// Another process holds the TPU (or, for libtpu's lock file, seems to).
    #[error("another process is using the TPU: end it first (`octant devices` shows it)")]
    TpuBusy {
        /// The plugin's own words.
        message: String,
    },
    /// The CUDA plugin found no usable GPU.
    #[error(
        "there is no usable NVIDIA GPU on this machine ({message}): check that `nvidia-smi` works, or use `--device cpu`"
    )]
    NoGpu {
        /// The plugin's own words.
        message: String,
    },
    /// NVIDIA's driver is older than the plugin.
    #[error(
        "NVIDIA's driver{} is too old for this plugin: update the driver, or take the plugin for an older CUDA with `octant \
         plugin install cuda12`", crate::environment::nvidia_driver().map(|version| format!(" {version}")).unwrap_or_default()
    )]
    OldDriver {
        /// The plugin's own words.
        message: String,
    },
    /// The program or a buffer does not fit.
    #[error("{0}")]
    OutOfMemory(OutOfMemory),
    /// Any other error of the plugin.
    #[error("{code}: {message}")]
    Status {
        /// The class of the error.
        code: Code,
        /// The plugin's own words.
        message: String,
    },
    /// The plugin returned something that the interface does not allow.
    #[error("the plugin broke the PJRT interface: {0}")]
    Broken(String),
    /// The caller passed buffers or shapes that do not match.
    #[error("{0}")]
    Misuse(String),
}

impl PjrtError {
    /// Whether the device itself failed, rather than the request: its driver reset it, its machine took it away, a
    /// program crashed it.
    pub fn is_device_lost(&self) -> bool {
        // Messages of GPU and TPU drivers with the code of an internal error.
        const WORDS: [&str; 4] = ["CUDA_ERROR_", "fallen off the bus", "halted unexpectedly", "device is lost"];
        let PjrtError::Status { code, message } = self else { return false };
        matches!(code, Code::Unavailable | Code::Aborted | Code::DataLoss)
            || *code == Code::Internal && WORDS.iter().any(|words| message.contains(words))
    }

    /// The typed error for a plugin's error.
    pub fn from_status(code: Code, message: String) -> PjrtError {
        let says = |words: &str| message.contains(words);
        if code == Code::ResourceExhausted {
            return PjrtError::OutOfMemory(OutOfMemory::parse(message));
        }
        if says("No jellyfish device found") || says("Failed to find any TPU") || says("no TPU devices") {
            return PjrtError::NoTpu { message };
        }
        if says("is already in use by") || says("libtpu_lockfile") {
            return PjrtError::TpuBusy { message };
        }
        if says("driver version is insufficient") || says("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH") {
            return PjrtError::OldDriver { message };
        }
        if says("CUDA_ERROR_NO_DEVICE")
            || says("No visible GPU devices")
            || says("no supported devices found for platform CUDA")
        {
            return PjrtError::NoGpu { message };
        }
        if code == Code::InvalidArgument && message.starts_with("Unexpected PJRT_") && says("size: expected") {
            return PjrtError::TooNew { message };
        }
        PjrtError::Status { code, message }
    }
}

/// Declares [`Code`] from one table: number in the C API, name, words.
macro_rules! codes {
    ($($number:literal $name:ident $words:literal,)*) => {
        /// The class of a plugin's error: the canonical status codes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are the documentation")]
        pub enum Code {
            $($name),*
        }

        impl Code {
            /// The code of that number; a number that is not in the table is an unknown error.
            pub(crate) fn from_raw(raw: i32) -> Code {
                match raw {
                    $($number => Code::$name,)*
                    _ => Code::Unknown,
                }
            }

            /// The number of the code.
            pub(crate) fn raw(self) -> i32 {
                match self {
                    $(Code::$name => $number,)*
                }
            }

            /// The code in words.
            pub fn words(self) -> &'static str {
                match self {
                    $(Code::$name => $words,)*
                }
            }
        }
    };
}

codes! {
    1 Canceled "canceled",
    2 Unknown "unknown error",
    3 InvalidArgument "invalid argument",
    4 DeadlineExceeded "deadline exceeded",
    5 NotFound "not found",
    6 AlreadyExists "already exists",
    7 PermissionDenied "permission denied",
    8 ResourceExhausted "out of resources",
    9 FailedPrecondition "failed precondition",
    10 Aborted "aborted",
    11 OutOfRange "out of range",
    12 Unimplemented "not implemented by this plugin",
    13 Internal "internal error of the plugin",
    14 Unavailable "unavailable",
    15 DataLoss "data loss",
    16 Unauthenticated "not authenticated",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_numbers_of_the_interface() {
        assert_eq!(Code::from_raw(1), Code::Canceled);
        assert_eq!(Code::from_raw(3), Code::InvalidArgument);
        assert_eq!(Code::from_raw(8), Code::ResourceExhausted);
        assert_eq!(Code::from_raw(12), Code::Unimplemented);
        assert_eq!(Code::from_raw(16), Code::Unauthenticated);
        assert_eq!(Code::from_raw(17), Code::Unknown);
        assert_eq!(Code::from_raw(-1), Code::Unknown);
        assert_eq!(Code::AlreadyExists.raw(), 6);
    }

    #[test]
    fn known_failures_become_sentences_that_help() {
        let no_tpu = PjrtError::from_status(Code::NotFound, "No jellyfish device found.".into());
        assert!(matches!(no_tpu, PjrtError::NoTpu { .. }));
        assert!(no_tpu.to_string().starts_with("there is no TPU on this machine"));

        let no_gpu = PjrtError::from_status(Code::FailedPrecondition, "No visible GPU devices.".into());
        assert!(matches!(no_gpu, PjrtError::NoGpu { .. }));

        let old = "CUDA driver version is insufficient for CUDA runtime version";
        let old = PjrtError::from_status(Code::FailedPrecondition, old.into());
        assert!(old.to_string().contains("is too old for this plugin: update the driver"), "{old}");

        let lock = "The TPU is already in use by process with pid 42. Run \"$ sudo rm /tmp/libtpu_lockfile\".";
        assert!(matches!(PjrtError::from_status(Code::Aborted, lock.into()), PjrtError::TpuBusy { .. }));

        let text = "Unexpected PJRT_ExecuteOptions size: expected 152, got 144. Check installed software versions.";
        assert!(matches!(PjrtError::from_status(Code::InvalidArgument, text.into()), PjrtError::TooNew { .. }));

        let crashed = "CUDA error: Failed to end stream capture: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access";
        assert!(PjrtError::from_status(Code::Internal, crashed.into()).is_device_lost());
        assert!(PjrtError::from_status(Code::Unavailable, "Socket closed".into()).is_device_lost());

        let other = PjrtError::from_status(Code::Internal, "boom".into());
        assert!(!other.is_device_lost());
        assert_eq!(other.to_string(), "internal error of the plugin: boom");
    }
}
