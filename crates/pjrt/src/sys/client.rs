//! Clients: creation, what they are, compilation.

use super::*;

/// Makes an error of the plugin's own type, which a callback returns.
pub type PJRT_CallbackError =
    Option<unsafe extern "C" fn(code: PJRT_Error_Code, message: *const c_char, message_size: usize) -> *mut PJRT_Error>;
/// Frees a value that a callback returned; the plugin calls it once it has copied the value.
pub type PJRT_KeyValueDeleter = Option<unsafe extern "C" fn(value: *mut c_char)>;
pub type PJRT_KeyValueGetCallback = Call<PJRT_KeyValueGetCallback_Args>;
pub type PJRT_KeyValuePutCallback = Call<PJRT_KeyValuePutCallback_Args>;
pub type PJRT_KeyValueTryGetCallback = Call<PJRT_KeyValueTryGetCallback_Args>;

pjrt_structs! {
    PJRT_KeyValueGetCallback_Args {
        key: *const c_char,
        key_size: usize,
        timeout_in_ms: c_int,
        callback_error: *mut PJRT_CallbackError,
        user_arg: *mut c_void,
        value: *mut c_char,
        value_size: usize,
        value_deleter_callback: PJRT_KeyValueDeleter,
    }
    PJRT_KeyValueTryGetCallback_Args {
        key: *const c_char,
        key_size: usize,
        callback_error: *mut PJRT_CallbackError,
        user_arg: *mut c_void,
        value: *mut c_char,
        value_size: usize,
        value_deleter_callback: PJRT_KeyValueDeleter,
    }
    PJRT_KeyValuePutCallback_Args {
        key: *const c_char,
        key_size: usize,
        value: *const c_char,
        value_size: usize,
        callback_error: *mut PJRT_CallbackError,
        user_arg: *mut c_void,
    }
    PJRT_Client_ProcessIndex_Args { client: *mut PJRT_Client, process_index: c_int }
    PJRT_Client_Devices_Args {
        client: *mut PJRT_Client,
        devices: *const *mut PJRT_Device,
        num_devices: usize,
    }
    PJRT_Client_Create_Args {
        create_options: *const PJRT_NamedValue,
        num_options: usize,
        kv_get_callback: PJRT_KeyValueGetCallback,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: PJRT_KeyValuePutCallback,
        kv_put_user_arg: *mut c_void,
        client: *mut PJRT_Client,
        kv_try_get_callback: PJRT_KeyValueTryGetCallback,
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
