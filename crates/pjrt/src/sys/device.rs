//! Devices, GPUs and topologies of the C interface.

use super::*;

pjrt_structs! {
    PJRT_DeviceDescription_Id_Args { device_description: *mut PJRT_DeviceDescription, id: c_int }
    PJRT_DeviceDescription_ProcessIndex_Args { device_description: *mut PJRT_DeviceDescription, process_index: c_int }
    PJRT_DeviceDescription_Attributes_Args {
        device_description: *mut PJRT_DeviceDescription,
        num_attributes: usize,
        attributes: *const PJRT_NamedValue,
    }
    PJRT_DeviceDescription_Kind_Args {
        device_description: *mut PJRT_DeviceDescription,
        device_kind: *const c_char,
        device_kind_size: usize,
    }
    PJRT_DeviceDescription_DebugString_Args {
        device_description: *mut PJRT_DeviceDescription,
        debug_string: *const c_char,
        debug_string_size: usize,
    }

    PJRT_Device_GetDescription_Args {
        device: *mut PJRT_Device,
        device_description: *mut PJRT_DeviceDescription,
    }
    PJRT_Device_LocalHardwareId_Args { device: *mut PJRT_Device, local_hardware_id: c_int }
    PJRT_Device_MemoryStats_Args {
        device: *mut PJRT_Device,
        bytes_in_use: i64,
        peak_bytes_in_use: i64,
        peak_bytes_in_use_is_set: bool,
        num_allocs: i64,
        num_allocs_is_set: bool,
        largest_alloc_size: i64,
        largest_alloc_size_is_set: bool,
        bytes_limit: i64,
        bytes_limit_is_set: bool,
        bytes_reserved: i64,
        bytes_reserved_is_set: bool,
        peak_bytes_reserved: i64,
        peak_bytes_reserved_is_set: bool,
        bytes_reservable_limit: i64,
        bytes_reservable_limit_is_set: bool,
        largest_free_block_bytes: i64,
        largest_free_block_bytes_is_set: bool,
        pool_bytes: i64,
        pool_bytes_is_set: bool,
        peak_pool_bytes: i64,
        peak_pool_bytes_is_set: bool,
        peak_allocated_bytes: i64,
        peak_allocated_bytes_is_set: bool,
    }
}

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

pjrt_structs! {
    PJRT_TopologyDescription_Create_Args {
        topology_name: *const c_char,
        topology_name_size: usize,
        create_options: *const PJRT_NamedValue,
        num_options: usize,
        topology: *mut PJRT_TopologyDescription,
    }
    PJRT_TopologyDescription_Destroy_Args { topology: *mut PJRT_TopologyDescription }
    PJRT_TopologyDescription_PlatformName_Args {
        topology: *const PJRT_TopologyDescription,
        platform_name: *const c_char,
        platform_name_size: usize,
    }
    PJRT_TopologyDescription_PlatformVersion_Args {
        topology: *mut PJRT_TopologyDescription,
        platform_version: *const c_char,
        platform_version_size: usize,
    }
    PJRT_TopologyDescription_GetDeviceDescriptions_Args {
        topology: *const PJRT_TopologyDescription,
        descriptions: *const *mut PJRT_DeviceDescription,
        num_descriptions: usize,
    }
    PJRT_TopologyDescription_Attributes_Args {
        topology: *mut PJRT_TopologyDescription,
        attributes: *const PJRT_NamedValue,
        num_attributes: usize,
    }
    PJRT_Compile_Args {
        topology: *const PJRT_TopologyDescription,
        program: *const PJRT_Program,
        compile_options: *const c_char,
        compile_options_size: usize,
        client: *mut PJRT_Client,
        executable: *mut PJRT_Executable,
    }
}
