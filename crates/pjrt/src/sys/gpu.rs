//! The extension for functions that programs on GPUs call (`pjrt_c_api_gpu_extension.h`).

use super::*;

/// The extension of type [`PJRT_Extension_Type_Gpu_Custom_Call`].
#[repr(C)]
pub struct PJRT_Gpu_Custom_Call {
    pub base: PJRT_Extension_Base,
    pub custom_call: Call<PJRT_Gpu_Register_Custom_Call_Args>,
}

/// Up to the last field that every version of the extension has.
#[repr(C)]
pub struct PJRT_Gpu_Register_Custom_Call_Args {
    pub struct_size: usize,
    pub function_name: *const c_char,
    pub function_name_size: usize,
    pub api_version: c_int,
    pub handler_instantiate: *const c_void,
    pub handler_prepare: *const c_void,
    pub handler_initialize: *const c_void,
    pub handler_execute: *const c_void,
}

impl PJRT_Gpu_Register_Custom_Call_Args {
    /// A function of XLA's typed interface that is called when a program is loaded and when it runs.
    pub fn new(name: &str, handler: *const c_void) -> Self {
        const TYPED: c_int = 1;
        PJRT_Gpu_Register_Custom_Call_Args {
            struct_size: size_of::<Self>(),
            function_name: name.as_ptr().cast(),
            function_name_size: name.len(),
            api_version: TYPED,
            handler_instantiate: handler,
            handler_prepare: std::ptr::null(),
            handler_initialize: std::ptr::null(),
            handler_execute: handler,
        }
    }
}
