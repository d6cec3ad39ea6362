//! The profiler extension (`pjrt_c_api_profiler_extension.h` and `profiler_c_api.h`).
//!
//! It has structs of its own kind: a size, for some a private pointer, no chain of extensions, and its own errors.

use super::*;

opaque!(PLUGIN_Profiler, PLUGIN_Profiler_Error);

/// The extension of type [`PJRT_Extension_Type_Profiler`].
#[repr(C)]
pub struct PJRT_Profiler_Extension {
    pub base: PJRT_Extension_Base,
    pub profiler_api: *const PLUGIN_Profiler_Api,
    pub traceme_context_id: i64,
}

#[repr(C)]
pub struct PLUGIN_Profiler_Error_Destroy_Args {
    pub struct_size: usize,
    pub private: *mut c_void,
    pub error: *mut PLUGIN_Profiler_Error,
}

#[repr(C)]
pub struct PLUGIN_Profiler_Error_Message_Args {
    pub struct_size: usize,
    pub private: *mut c_void,
    pub error: *const PLUGIN_Profiler_Error,
    pub message: *const c_char,
    pub message_size: usize,
}

#[repr(C)]
pub struct PLUGIN_Profiler_Create_Args {
    pub struct_size: usize,
    pub options: *const c_char,
    pub options_size: usize,
    pub profiler: *mut PLUGIN_Profiler,
}

/// The arguments of `Destroy`, `Start` and `Stop`, which all take nothing but the profiler.
#[repr(C)]
pub struct PLUGIN_Profiler_Args {
    pub struct_size: usize,
    pub profiler: *mut PLUGIN_Profiler,
}

#[repr(C)]
pub struct PLUGIN_Profiler_CollectData_Args {
    pub struct_size: usize,
    pub profiler: *mut PLUGIN_Profiler,
    pub buffer: *mut u8,
    pub buffer_size_in_bytes: usize,
}

pub type ProfilerCall<A> = Option<unsafe extern "C" fn(*mut A) -> *mut PLUGIN_Profiler_Error>;

/// The profiler's function table, up to the last function we use.
#[repr(C)]
pub struct PLUGIN_Profiler_Api {
    pub struct_size: usize,
    pub private: *mut c_void,
    pub error_destroy: Option<unsafe extern "C" fn(*mut PLUGIN_Profiler_Error_Destroy_Args)>,
    pub error_message: Option<unsafe extern "C" fn(*mut PLUGIN_Profiler_Error_Message_Args)>,
    pub error_get_code: Option<unsafe extern "C" fn()>,
    pub create: ProfilerCall<PLUGIN_Profiler_Create_Args>,
    pub destroy: ProfilerCall<PLUGIN_Profiler_Args>,
    pub start: ProfilerCall<PLUGIN_Profiler_Args>,
    pub stop: ProfilerCall<PLUGIN_Profiler_Args>,
    pub collect_data: ProfilerCall<PLUGIN_Profiler_CollectData_Args>,
}
