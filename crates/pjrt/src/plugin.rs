//! A plugin: a shared library with a table of functions.

use crate::error::{Code, PjrtError, Result};
use crate::named_value::{NamedValues, from_c, text};
use crate::{cuda_libraries, environment, sys};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A loaded PJRT plugin. Clones share it; it stays loaded until the process ends, because neither libtpu nor the CUDA
/// plugin can be unloaded safely.
#[derive(Clone)]
pub struct Plugin {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    table: sys::PJRT_Api,
    attributes: NamedValues,
    cuda_root: Option<PathBuf>,
}

// SAFETY: the table is read-only after loading, and the interface allows its functions to be called from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// The version of the interface that a plugin speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion {
    /// Incompatible versions differ in this number.
    pub major: i32,
    /// Increased by compatible additions.
    pub minor: i32,
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Plugin {
    /// Loads the plugin at `path`, checks the API version, and initializes it. Loading a path
    /// again returns the plugin that is already loaded.
    pub fn load(path: impl AsRef<Path>) -> Result<Plugin> {
        static LOADED: Mutex<Option<HashMap<PathBuf, Plugin>>> = Mutex::new(None);
        let path = path.as_ref();
        let path = path.canonicalize().map_err(|_| PjrtError::Missing { path: path.to_path_buf() })?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = loaded.get_or_insert_default();
        if let Some(plugin) = loaded.get(&path) {
            return Ok(plugin.clone());
        }
        let plugin = Plugin::load_anew(&path)?;
        loaded.insert(path, plugin.clone());
        Ok(plugin)
    }

    fn load_anew(path: &Path) -> Result<Plugin> {
        if !environment::is_ready_for(path) {
            return Err(PjrtError::Unprepared { path: path.to_path_buf() });
        }
        let cuda_root = cuda_libraries::preload_beside(path);
        let not_a_library = |error: libloading::Error| {
            let (path, reason) = (path.to_path_buf(), loader_reason(&error));
            match needed_glibc(&reason) {
                Some(needed) => PjrtError::NewerGlibc { path, needed: needed.into() },
                None => PjrtError::NotALibrary { path, reason },
            }
        };
        // SAFETY: loading a library runs its initializers. That is what the caller wants by naming it a plugin;
        // it cannot be inspected first.
        let library = unsafe { libloading::Library::new(path) }.map_err(not_a_library)?;
        // SAFETY: the interface fixes the type of a symbol of this name.
        let get_api = unsafe { library.get::<sys::GetPjrtApi>(sys::GET_PJRT_API) }
            .map_err(|_| PjrtError::NotAPlugin { path: path.to_path_buf() })?;
        // SAFETY: `GetPjrtApi` takes nothing and may be called any number of times.
        let table = unsafe { get_api() };
        // The plugin starts threads and keeps pointers into itself: it must never be unloaded.
        std::mem::forget(library);
        if table.is_null() {
            return Err(PjrtError::Broken(format!("GetPjrtApi of {} returned nothing", path.display())));
        }
        // SAFETY: a plugin returns a table that lives as long as the process and states its own size.
        unsafe { Plugin::from_table(table, path.to_path_buf(), cuda_root) }
    }

    /// A plugin from its table.
    ///
    /// # Safety
    /// `table` must point to a table that states its size and whose functions keep to the interface.
    pub(crate) unsafe fn from_table(
        table: *const sys::PJRT_Api,
        path: PathBuf,
        cuda_root: Option<PathBuf>,
    ) -> Result<Plugin> {
        // SAFETY: passed on from the caller: whatever else it holds, the table begins with its size.
        let size = unsafe { *table.cast::<usize>() };
        let least = std::mem::offset_of!(sys::PJRT_Api, PJRT_Error_Destroy);
        if size < least {
            let path = path.display();
            return Err(PjrtError::Broken(format!(
                "the function table of {path} has {size} bytes, which do not even hold its version"
            )));
        }
        // SAFETY: passed on from the caller.
        let table = unsafe { sys::PJRT_Api::copied_from(table) };
        let version = &table.pjrt_api_version;
        negotiate(&path, ApiVersion { major: version.major_version, minor: version.minor_version })?;
        let mut inner = Inner { path, table, attributes: NamedValues::new(), cuda_root };
        inner.initialize()?;
        inner.attributes = inner.read_attributes()?;
        Ok(Plugin { inner: Arc::new(inner) })
    }

    /// The version of the interface.
    pub fn version(&self) -> ApiVersion {
        let version = &self.inner.table.pjrt_api_version;
        ApiVersion { major: version.major_version, minor: version.minor_version }
    }

    /// The plugin's attributes: `xla_version`, `stablehlo_current_version`, `stablehlo_minimum_version`, …
    pub fn attributes(&self) -> &NamedValues {
        &self.inner.attributes
    }

    /// The library's file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The CUDA folder (with `nvvm/libdevice` and perhaps `bin/ptxas`) that was found beside a CUDA plugin. Compile
    /// options name it, because XLA does not find it by itself.
    pub fn cuda_root(&self) -> Option<&Path> {
        self.inner.cuda_root.as_deref()
    }

    /// The profiler's table, if the plugin has that extension.
    pub(crate) fn profiler_api(&self) -> Option<*const sys::PLUGIN_Profiler_Api> {
        let extension = self.extension(sys::PJRT_Extension_Type_Profiler)?.cast::<sys::PJRT_Profiler_Extension>();
        // SAFETY: a link of the profiler's type is the beginning of that extension's struct.
        let api = unsafe { (*extension).profiler_api };
        (!api.is_null()).then_some(api)
    }

    /// Registers a custom call, where the plugin has the extension for it.
    pub(crate) fn register(&self, call: &octant_cuda::CustomCall) -> Result<()> {
        let missing = PjrtError::NoFunction { function: "extension for custom calls" };
        let extension = self.extension(sys::PJRT_Extension_Type_Gpu_Custom_Call).ok_or(missing)?;
        let mut args = sys::PJRT_Gpu_Register_Custom_Call_Args::new(call.name, call.handler);
        // SAFETY: a link of this type is the beginning of that extension's struct; the name outlives the call, which
        // copies it, and the handler is a function of this process.
        unsafe {
            let register = (*extension.cast::<sys::PJRT_Gpu_Custom_Call>()).custom_call;
            self.call("PJRT_Gpu_Register_Custom_Call", register, &mut args)
        }
    }

    /// The plugin's optional interface of that type.
    fn extension(&self, kind: std::ffi::c_int) -> Option<*const sys::PJRT_Extension_Base> {
        let mut link = self.inner.table.extension_start.cast_const();
        // SAFETY: the chain belongs to the plugin's table, lives as long as the process and ends in null.
        while let Some(extension) = unsafe { link.as_ref() } {
            if extension.type_ == kind {
                return Some(link);
            }
            link = extension.next;
        }
        None
    }

    pub(crate) fn table(&self) -> &sys::PJRT_Api {
        &self.inner.table
    }

    /// Calls a function of the table; see [`call!`](crate::call) for the intended use.
    ///
    /// # Safety
    /// Every pointer in `args` must be what the function expects, for as long as the function keeps it.
    pub(crate) unsafe fn call<A>(&self, name: &'static str, function: sys::Call<A>, args: &mut A) -> Result<()> {
        // SAFETY: passed on from the caller.
        unsafe { self.inner.call(name, function, args) }
    }

    /// Converts and frees an error of the plugin.
    ///
    /// # Safety
    /// `error` must be null or an error of this plugin that is freed only here.
    pub(crate) unsafe fn take_error(&self, error: *mut sys::PJRT_Error) -> Result<()> {
        // SAFETY: passed on from the caller.
        unsafe { self.inner.take_error(error) }
    }
}

/// Calls `plugin.table().$function` with `$args`, a mutable variable; for use inside `unsafe` only.
macro_rules! call {
    ($plugin:expr, $function:ident, $args:expr) => {
        $plugin.call(stringify!($function), $plugin.table().$function, &mut $args)
    };
}
pub(crate) use call;

impl Inner {
    unsafe fn call<A>(&self, name: &'static str, function: sys::Call<A>, args: &mut A) -> Result<()> {
        let function = function.ok_or(PjrtError::NoFunction { function: name })?;
        // SAFETY: the caller guarantees the arguments; an error that comes back is ours to free.
        unsafe { self.take_error(function(args)) }
    }

    unsafe fn take_error(&self, error: *mut sys::PJRT_Error) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        let mut code = sys::PJRT_Error_GetCode_Args { error, ..Default::default() };
        let mut message = sys::PJRT_Error_Message_Args { error, ..Default::default() };
        let mut destroy = sys::PJRT_Error_Destroy_Args { error, ..Default::default() };
        // SAFETY: `error` is alive until it is destroyed at the end, and the message is copied before.
        unsafe {
            if let Some(get_code) = self.table.PJRT_Error_GetCode {
                // If reading the code fails as well, the code stays "unknown".
                let _ = get_code(&mut code);
            }
            if let Some(get_message) = self.table.PJRT_Error_Message {
                get_message(&mut message);
            }
            let words = text(message.message, message.message_size);
            if let Some(free) = self.table.PJRT_Error_Destroy {
                free(&mut destroy);
            }
            Err(PjrtError::from_status(Code::from_raw(code.code), words))
        }
    }

    fn initialize(&self) -> Result<()> {
        let mut args = sys::PJRT_Plugin_Initialize_Args::default();
        // SAFETY: the function takes nothing but its own size.
        unsafe { self.call("PJRT_Plugin_Initialize", self.table.PJRT_Plugin_Initialize, &mut args) }
    }

    fn read_attributes(&self) -> Result<NamedValues> {
        let mut args = sys::PJRT_Plugin_Attributes_Args::default();
        // SAFETY: the function fills in attributes that live as long as the process.
        unsafe {
            match self.call("PJRT_Plugin_Attributes", self.table.PJRT_Plugin_Attributes, &mut args) {
                Ok(()) => Ok(from_c(args.attributes, args.num_attributes)),
                Err(PjrtError::NoFunction { .. }) => Ok(NamedValues::new()),
                Err(error) => Err(error),
            }
        }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Plugin({}, PJRT {})", self.inner.path.display(), self.version())
    }
}

/// Checks compatibility: the same major version, and a minor version that is not too old. A newer minor version
/// is fine, because the interface only ever appends.
fn negotiate(path: &Path, version: ApiVersion) -> Result<()> {
    let ApiVersion { major, minor } = version;
    let path = path.to_path_buf();
    if major != sys::MAJOR {
        return Err(PjrtError::WrongMajor { path, major, minor });
    }
    if minor < sys::OLDEST_MINOR {
        return Err(PjrtError::TooOld { path, major, minor });
    }
    Ok(())
}

/// The dynamic loader's message, which libloading keeps as the source of its own error.
fn loader_reason(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error).map(|source| source.to_string());
    source.unwrap_or_else(|| error.to_string())
}

/// The version in the loader's "/lib/libc.so.6: version `GLIBC_2.38' not found (required by plugin.so)".
fn needed_glibc(reason: &str) -> Option<&str> {
    let (_, after) = reason.split_once("version `GLIBC_")?;
    after.split_once("' not found").map(|(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_negotiated() {
        let path = Path::new("plugin.so");
        let negotiate = |major, minor| negotiate(path, ApiVersion { major, minor });
        assert_eq!(negotiate(0, sys::OLDEST_MINOR), Ok(()));
        assert_eq!(negotiate(0, sys::OLDEST_MINOR + 100), Ok(()));
        let major = negotiate(1, 0).unwrap_err();
        assert_eq!(
            major.to_string(),
            "plugin.so speaks PJRT 1.0, and Octant speaks 0.x: install a plugin that matches with `octant plugin install`"
        );
        let old = negotiate(0, sys::OLDEST_MINOR - 1).unwrap_err();
        assert!(old.to_string().contains("needs at least 0.70"), "{old}");
    }
}
