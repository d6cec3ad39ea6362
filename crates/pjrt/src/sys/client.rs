//! Clients: creation, what they are, compilation.

use super::*;

/// `PJRT_KeyValue*Callback`: only multi-process clients use them, so they are always null here.
pub type UnusedCallback = Option<unsafe extern "C" fn()>;

pjrt_structs! {
    PJRT_Client_Create_Args {
        create_options: *const PJRT_NamedValue,
        num_options: usize,
        kv_get_callback: UnusedCallback,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: UnusedCallback,
        kv_put_user_arg: *mut c_void,
        client: *mut PJRT_Client,
        kv_try_get_callback: UnusedCallback,
        kv_try_get_user_arg: *mut c_void,
    }
    PJRT_Client_Destroy_Args { client: *mut PJRT_Client }
    PJRT_Client_PlatformName_Args {
        client: *mut PJRT_Client,
        platform_name: *const c_char,
        platform_name_size: usize,
    }
    PJRT_Client_PlatformVersion_Args {
        client: *mut PJRT_Client,
        platform_version: *const c_char,
        platform_version_size: usize,
    }
    PJRT_Client_AddressableDevices_Args {
        client: *mut PJRT_Client,
        addressable_devices: *const *mut PJRT_Device,
        num_addressable_devices: usize,
    }
    PJRT_Client_TopologyDescription_Args {
        client: *mut PJRT_Client,
        topology: *mut PJRT_TopologyDescription,
    }
    PJRT_Client_DefaultDeviceAssignment_Args {
        client: *mut PJRT_Client,
        num_replicas: c_int,
        num_partitions: c_int,
        default_assignment_size: usize,
        default_assignment: *mut c_int,
    }

    PJRT_Program {
        code: *mut c_char,
        code_size: usize,
        format: *const c_char,
        format_size: usize,
    }
    PJRT_Client_Compile_Args {
        client: *mut PJRT_Client,
        program: *const PJRT_Program,
        compile_options: *const c_char,
        compile_options_size: usize,
        executable: *mut PJRT_LoadedExecutable,
    }
    PJRT_Client_Load_Args {
        client: *mut PJRT_Client,
        executable: *mut PJRT_Executable,
        compile_options: *const c_char,
        compile_options_size: usize,
        loaded_executable: *mut PJRT_LoadedExecutable,
    }
}
