//! The PJRT C interface: the part of `pjrt_c_api.h` (API 0.114) that Octant uses, with the header's names and order.
//!
//! Written by hand so that building Octant needs neither the header nor a C compiler. Three rules of the interface
//! shape everything here:
//!
//! * Every struct starts with its own size. A caller may know more or fewer fields than the plugin, and both sides look
//!   at the size before they touch a field, so `struct_size` is always the size *we* compiled
//!   ([`PJRT_Error_Destroy_Args::STRUCT_SIZE`] and its siblings).
//! * Fields are only ever appended while the major version stays 0. A shorter function table therefore means "these
//!   functions do not exist"; [`PJRT_Api::copied_from`] turns them into `None`.
//! * All-zero bytes are a valid value of every struct, and mean "not given" for every optional field.
//!
//! Enumerations are plain integers: a plugin may be newer and return a value that a Rust `enum` could not hold.

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]
// The structs mirror the header; fields that we never read still have to be there.
#![allow(dead_code)]

mod api;
mod buffer;
mod client;
mod device;
mod executable;
mod profiler;

#[cfg(test)]
mod layout_tests;

#[cfg(test)]
pub use api::PJRT_Api_Version;
pub use api::{Call, PJRT_Api};
pub use buffer::*;
pub use client::*;
pub use device::*;
pub use executable::*;
pub use profiler::*;

/// The major version of the interface that Octant speaks.
pub const MAJOR: i32 = 0;
/// The oldest minor version that will do: 0.57 rearranged the function table, and 0.70 is the first to take Shardy's
/// sharding annotations in the text of a program.
pub const OLDEST_MINOR: i32 = 70;

use std::ffi::{c_char, c_int, c_void};

/// Declares structs that begin, as all of PJRT's do, with their size and a chain of extensions; their `Default` is
/// all zero except for the size.
macro_rules! pjrt_structs {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name {
            pub struct_size: usize,
            pub extension_start: *mut crate::sys::PJRT_Extension_Base,
            $(pub $field: $type,)*
        }

        impl $name {
            /// The header's `…_STRUCT_SIZE`: up to the end of the last field, without the padding behind it.
            pub const STRUCT_SIZE: usize = {
                #[allow(unused_mut)]
                let mut end = std::mem::offset_of!($name, extension_start) + size_of::<usize>();
                $(
                    let field_end = std::mem::offset_of!($name, $field) + size_of::<$type>();
                    if field_end > end { end = field_end; }
                )*
                end
            };
        }

        impl Default for $name {
            fn default() -> Self {
                // SAFETY: the fields are integers, `bool`, raw pointers, `Option`s of functions and structs of such;
                // all-zero bytes are a valid value of each.
                let zero: Self = unsafe { std::mem::zeroed() };
                Self { struct_size: Self::STRUCT_SIZE, ..zero }
            }
        }
    )*};
}
pub(crate) use pjrt_structs;

/// Declares types of which only pointers ever exist on this side.
macro_rules! opaque {
    ($($name:ident),* $(,)?) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}
pub(crate) use opaque;

opaque!(
    PJRT_Error,
    PJRT_Event,
    PJRT_Client,
    PJRT_Device,
    PJRT_DeviceDescription,
    PJRT_Memory,
    PJRT_TopologyDescription,
    PJRT_Executable,
    PJRT_LoadedExecutable,
    PJRT_Buffer,
    PJRT_SerializedExecutable,
);

/// The name of the one function that a plugin exports.
pub const GET_PJRT_API: &[u8] = b"GetPjrtApi\0";
/// The type of [`GET_PJRT_API`].
pub type GetPjrtApi = unsafe extern "C" fn() -> *const PJRT_Api;

/// A link of the chain of optional interfaces; the struct of `type_` begins with it.
#[repr(C)]
pub struct PJRT_Extension_Base {
    pub struct_size: usize,
    pub type_: c_int,
    pub next: *mut PJRT_Extension_Base,
}
pub const PJRT_Extension_Type_Gpu_Custom_Call: c_int = 0;
pub const PJRT_Extension_Type_Profiler: c_int = 1;

pub type PJRT_Error_Code = c_int;
pub const PJRT_Error_Code_OK: PJRT_Error_Code = 0;

pjrt_structs! {
    PJRT_Error_Destroy_Args { error: *mut PJRT_Error }
    PJRT_Error_Message_Args { error: *const PJRT_Error, message: *const c_char, message_size: usize }
    PJRT_Error_GetCode_Args { error: *const PJRT_Error, code: PJRT_Error_Code }

    PJRT_Plugin_Initialize_Args {}
    PJRT_Plugin_Attributes_Args { attributes: *const PJRT_NamedValue, num_attributes: usize }

    PJRT_Event_Destroy_Args { event: *mut PJRT_Event }
    PJRT_Event_IsReady_Args { event: *mut PJRT_Event, is_ready: bool }
    PJRT_Event_Error_Args { event: *mut PJRT_Event }
    PJRT_Event_Await_Args { event: *mut PJRT_Event }
    PJRT_Event_OnReady_Args { event: *mut PJRT_Event, callback: PJRT_Event_OnReadyCallback, user_arg: *mut c_void }

    PJRT_NamedValue {
        name: *const c_char,
        name_size: usize,
        type_: c_int,
        value: PJRT_NamedValue_Union,
        value_size: usize,
    }
}

pub type PJRT_Event_OnReadyCallback = Option<unsafe extern "C" fn(error: *mut PJRT_Error, user_arg: *mut c_void)>;

/// The value of a [`PJRT_NamedValue`]; its `type_` says which field is the right one.
#[repr(C)]
#[derive(Clone, Copy)]
pub union PJRT_NamedValue_Union {
    pub string_value: *const c_char,
    pub int64_value: i64,
    pub int64_array_value: *const i64,
    pub float_value: f32,
    pub bool_value: bool,
}
pub const PJRT_NamedValue_kString: c_int = 0;
pub const PJRT_NamedValue_kInt64: c_int = 1;
pub const PJRT_NamedValue_kInt64List: c_int = 2;
pub const PJRT_NamedValue_kFloat: c_int = 3;
pub const PJRT_NamedValue_kBool: c_int = 4;
