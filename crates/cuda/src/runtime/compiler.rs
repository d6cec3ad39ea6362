//! NVIDIA's run-time compiler: CUDA C++ to the machine code of one architecture.

use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

type Status = c_int;
type Program = *mut c_void;

/// Files with the compiler, newest first. The plugin's surroundings have loaded theirs by full path.
const LIBRARIES: [&str; 2] = ["libnvrtc.so.13", "libnvrtc.so.12"];

/// A kernel's source.
pub struct Source {
    pub name: &'static CStr,
    pub text: &'static CStr,
    /// The kernel's name in it, which profiles show.
    pub entry: &'static CStr,
    /// The files that it includes, by name.
    pub headers: &'static [Header],
}

/// A file's name and its text.
pub type Header = (&'static CStr, &'static CStr);

impl Source {
    /// All that the compiler reads.
    pub fn contents(&self) -> Vec<&'static CStr> {
        std::iter::once(self.text).chain(self.headers.iter().map(|&(_, text)| text)).collect()
    }
}

/// C text, from a file beside the one that names it.
macro_rules! text {
    ($file:literal) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(include_str!($file), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("a source must not hold a zero byte"),
        }
    };
}

/// The source in a file, the name of its kernel, and what it includes.
macro_rules! source {
    ($file:literal, $entry:literal, $headers:expr) => {
        Source { name: $entry, text: crate::runtime::compiler::text!($file), entry: $entry, headers: $headers }
    };
}

pub(crate) use {source, text};

type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> Status;
type Size = unsafe extern "C" fn(Program, *mut usize) -> Status;
type Read = unsafe extern "C" fn(Program, *mut c_char) -> Status;

/// The compiler's functions.
pub struct Compiler {
    create: Create,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status,
    destroy: unsafe extern "C" fn(*mut Program) -> Status,
    log: (Size, Read),
    code: (Size, Read),
}

/// The compiler of this machine, loaded once.
pub fn compiler() -> Result<&'static Compiler, String> {
    static COMPILER: OnceLock<Result<Compiler, String>> = OnceLock::new();
    COMPILER.get_or_init(Compiler::load).as_ref().map_err(String::clone)
}

impl Compiler {
    fn load() -> Result<Compiler, String> {
        // A path for machines where the loader does not find it by its name, as in a Python environment without a GPU.
        let named = std::env::var_os("OCTANT_NVRTC");
        let mut names = named.into_iter().chain(LIBRARIES.iter().map(|name| (*name).into()));
        // SAFETY: loading runs the initializers of NVIDIA's compiler, which cuDNN would run later anyway.
        let found = names.find_map(|name| unsafe { Library::new(name) }.ok());
        let library = found.ok_or("NVIDIA's run-time compiler (libnvrtc) is not there")?;
        let library: &'static Library = Box::leak(Box::new(library));
        let old = |_| "NVIDIA's run-time compiler is too old".to_string();
        // SAFETY: the types are those of the compiler's header.
        unsafe {
            Ok(Compiler {
                create: *library.get(b"nvrtcCreateProgram\0").map_err(old)?,
                compile: *library.get(b"nvrtcCompileProgram\0").map_err(old)?,
                destroy: *library.get(b"nvrtcDestroyProgram\0").map_err(old)?,
                log: (
                    *library.get(b"nvrtcGetProgramLogSize\0").map_err(old)?,
                    *library.get(b"nvrtcGetProgramLog\0").map_err(old)?,
                ),
                code: (
                    *library.get(b"nvrtcGetCUBINSize\0").map_err(old)?,
                    *library.get(b"nvrtcGetCUBIN\0").map_err(old)?,
                ),
            })
        }
    }

    /// The machine code of a source for an architecture, with macros such as `SIDE=3` defined.
    pub fn compile(&self, source: &Source, architecture: i32, defines: &[String]) -> Result<Vec<u8>, String> {
        let architecture = format!("--gpu-architecture=sm_{architecture}");
        let options = [architecture, "--std=c++17".to_string()].into_iter();
        let options = options.chain(defines.iter().map(|define| format!("--define-macro={define}")));
        let options: Vec<CString> = options.filter_map(|option| CString::new(option).ok()).collect();
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect::<Vec<_>>();
        let names: Vec<*const c_char> = source.headers.iter().map(|(name, _)| name.as_ptr()).collect();
        let headers: Vec<*const c_char> = source.headers.iter().map(|(_, text)| text.as_ptr()).collect();
        let count = source.headers.len() as c_int;
        let mut program: Program = null_mut();
        // SAFETY: all texts outlive the program, which is destroyed at the end.
        unsafe {
            let text = (source.text.as_ptr(), source.name.as_ptr());
            let mut failed = (self.create)(&mut program, text.0, text.1, count, headers.as_ptr(), names.as_ptr());
            if failed == 0 {
                failed = (self.compile)(program, options.len() as c_int, options.as_ptr());
            }
            let result = match failed {
                0 => self.read(program, self.code),
                _ => {
                    let log = self.read(program, self.log).unwrap_or_default();
                    let name = source.name.to_string_lossy();
                    Err(format!("{name} could not be compiled: {}", String::from_utf8_lossy(&log)))
                }
            };
            (self.destroy)(&mut program);
            result
        }
    }

    /// # Safety
    /// `program` must be one of this compiler's programs.
    unsafe fn read(&self, program: Program, (size, read): (Size, Read)) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the second function writes as many bytes as the first one says.
        unsafe {
            if size(program, &mut bytes) != 0 {
                return Err("NVIDIA's run-time compiler made nothing".to_string());
            }
            let mut contents = vec![0u8; bytes];
            match read(program, contents.as_mut_ptr().cast()) {
                0 => Ok(contents),
                _ => Err("NVIDIA's run-time compiler did not return its result".to_string()),
            }
        }
    }
}
