//! The structs against the sizes and offsets that a C compiler finds in the header of API 0.114 (64-bit).

use super::*;
use std::mem::offset_of;

#[test]
fn struct_sizes_equal_the_headers_struct_traits() {
    let sizes = [
        (PJRT_Error_Destroy_Args::STRUCT_SIZE, 24, "PJRT_Error_Destroy_Args"),
        (PJRT_Error_Message_Args::STRUCT_SIZE, 40, "PJRT_Error_Message_Args"),
        (PJRT_Error_GetCode_Args::STRUCT_SIZE, 28, "PJRT_Error_GetCode_Args"),
        (PJRT_Plugin_Initialize_Args::STRUCT_SIZE, 16, "PJRT_Plugin_Initialize_Args"),
        (PJRT_Plugin_Attributes_Args::STRUCT_SIZE, 32, "PJRT_Plugin_Attributes_Args"),
        (PJRT_Event_Destroy_Args::STRUCT_SIZE, 24, "PJRT_Event_Destroy_Args"),
        (PJRT_Event_IsReady_Args::STRUCT_SIZE, 25, "PJRT_Event_IsReady_Args"),
        (PJRT_Event_Error_Args::STRUCT_SIZE, 24, "PJRT_Event_Error_Args"),
        (PJRT_Event_Await_Args::STRUCT_SIZE, 24, "PJRT_Event_Await_Args"),
        (PJRT_Event_OnReady_Args::STRUCT_SIZE, 40, "PJRT_Event_OnReady_Args"),
        (PJRT_NamedValue::STRUCT_SIZE, 56, "PJRT_NamedValue"),
        (PJRT_Client_Create_Args::STRUCT_SIZE, 88, "PJRT_Client_Create_Args"),
        (PJRT_KeyValueGetCallback_Args::STRUCT_SIZE, 80, "PJRT_KeyValueGetCallback_Args"),
        (PJRT_KeyValueTryGetCallback_Args::STRUCT_SIZE, 72, "PJRT_KeyValueTryGetCallback_Args"),
        (PJRT_KeyValuePutCallback_Args::STRUCT_SIZE, 64, "PJRT_KeyValuePutCallback_Args"),
        (PJRT_Client_ProcessIndex_Args::STRUCT_SIZE, 28, "PJRT_Client_ProcessIndex_Args"),
        (PJRT_Client_Devices_Args::STRUCT_SIZE, 40, "PJRT_Client_Devices_Args"),
        (PJRT_Client_Destroy_Args::STRUCT_SIZE, 24, "PJRT_Client_Destroy_Args"),
        (PJRT_Client_PlatformName_Args::STRUCT_SIZE, 40, "PJRT_Client_PlatformName_Args"),
        (PJRT_Client_PlatformVersion_Args::STRUCT_SIZE, 40, "PJRT_Client_PlatformVersion_Args"),
        (PJRT_Client_AddressableDevices_Args::STRUCT_SIZE, 40, "PJRT_Client_AddressableDevices_Args"),
        (PJRT_Client_TopologyDescription_Args::STRUCT_SIZE, 32, "PJRT_Client_TopologyDescription_Args"),
        (PJRT_Client_DefaultDeviceAssignment_Args::STRUCT_SIZE, 48, "PJRT_Client_DefaultDeviceAssignment_Args"),
        (PJRT_Program::STRUCT_SIZE, 48, "PJRT_Program"),
        (PJRT_Client_Compile_Args::STRUCT_SIZE, 56, "PJRT_Client_Compile_Args"),
        (PJRT_Client_Load_Args::STRUCT_SIZE, 56, "PJRT_Client_Load_Args"),
        (PJRT_DeviceDescription_Id_Args::STRUCT_SIZE, 28, "PJRT_DeviceDescription_Id_Args"),
        (PJRT_DeviceDescription_ProcessIndex_Args::STRUCT_SIZE, 28, "PJRT_DeviceDescription_ProcessIndex_Args"),
        (PJRT_DeviceDescription_Attributes_Args::STRUCT_SIZE, 40, "PJRT_DeviceDescription_Attributes_Args"),
        (PJRT_DeviceDescription_Kind_Args::STRUCT_SIZE, 40, "PJRT_DeviceDescription_Kind_Args"),
        (PJRT_DeviceDescription_DebugString_Args::STRUCT_SIZE, 40, "PJRT_DeviceDescription_DebugString_Args"),
        (PJRT_Device_GetDescription_Args::STRUCT_SIZE, 32, "PJRT_Device_GetDescription_Args"),
        (PJRT_Device_LocalHardwareId_Args::STRUCT_SIZE, 28, "PJRT_Device_LocalHardwareId_Args"),
        (PJRT_Device_MemoryStats_Args::STRUCT_SIZE, 201, "PJRT_Device_MemoryStats_Args"),
        (PJRT_Executable_Destroy_Args::STRUCT_SIZE, 24, "PJRT_Executable_Destroy_Args"),
        (PJRT_Executable_Name_Args::STRUCT_SIZE, 40, "PJRT_Executable_Name_Args"),
        (PJRT_Executable_NumPartitions_Args::STRUCT_SIZE, 32, "PJRT_Executable_NumPartitions_Args"),
        (PJRT_Executable_NumOutputs_Args::STRUCT_SIZE, 32, "PJRT_Executable_NumOutputs_Args"),
        (PJRT_Executable_Fingerprint_Args::STRUCT_SIZE, 40, "PJRT_Executable_Fingerprint_Args"),
        (PJRT_Executable_GetCostAnalysis_Args::STRUCT_SIZE, 40, "PJRT_Executable_GetCostAnalysis_Args"),
        (PJRT_Executable_GetCompiledMemoryStats_Args::STRUCT_SIZE, 144, "PJRT_Executable_GetCompiledMemoryStats_Args"),
        (PJRT_Executable_OptimizedProgram_Args::STRUCT_SIZE, 32, "PJRT_Executable_OptimizedProgram_Args"),
        (PJRT_Executable_Serialize_Args::STRUCT_SIZE, 56, "PJRT_Executable_Serialize_Args"),
        (PJRT_Executable_DeserializeAndLoad_Args::STRUCT_SIZE, 72, "PJRT_Executable_DeserializeAndLoad_Args"),
        (PJRT_LoadedExecutable_Destroy_Args::STRUCT_SIZE, 24, "PJRT_LoadedExecutable_Destroy_Args"),
        (PJRT_LoadedExecutable_GetExecutable_Args::STRUCT_SIZE, 32, "PJRT_LoadedExecutable_GetExecutable_Args"),
        (
            PJRT_LoadedExecutable_AddressableDevices_Args::STRUCT_SIZE,
            40,
            "PJRT_LoadedExecutable_AddressableDevices_Args",
        ),
        (PJRT_ExecuteOptions::STRUCT_SIZE, 144, "PJRT_ExecuteOptions"),
        (PJRT_LoadedExecutable_Execute_Args::STRUCT_SIZE, 80, "PJRT_LoadedExecutable_Execute_Args"),
        (PJRT_Buffer_MemoryLayout_Tiled::STRUCT_SIZE, 56, "PJRT_Buffer_MemoryLayout_Tiled"),
        (PJRT_Buffer_MemoryLayout::STRUCT_SIZE, 76, "PJRT_Buffer_MemoryLayout"),
        (PJRT_Client_BufferFromHostBuffer_Args::STRUCT_SIZE, 120, "PJRT_Client_BufferFromHostBuffer_Args"),
        (PJRT_Buffer_Destroy_Args::STRUCT_SIZE, 24, "PJRT_Buffer_Destroy_Args"),
        (PJRT_Buffer_ElementType_Args::STRUCT_SIZE, 28, "PJRT_Buffer_ElementType_Args"),
        (PJRT_Buffer_Dimensions_Args::STRUCT_SIZE, 40, "PJRT_Buffer_Dimensions_Args"),
        (PJRT_Buffer_OnDeviceSizeInBytes_Args::STRUCT_SIZE, 32, "PJRT_Buffer_OnDeviceSizeInBytes_Args"),
        (PJRT_Buffer_Device_Args::STRUCT_SIZE, 32, "PJRT_Buffer_Device_Args"),
        (PJRT_Buffer_Delete_Args::STRUCT_SIZE, 24, "PJRT_Buffer_Delete_Args"),
        (PJRT_Buffer_IsDeleted_Args::STRUCT_SIZE, 25, "PJRT_Buffer_IsDeleted_Args"),
        (PJRT_Buffer_ToHostBuffer_Args::STRUCT_SIZE, 56, "PJRT_Buffer_ToHostBuffer_Args"),
        (PJRT_Buffer_ReadyEvent_Args::STRUCT_SIZE, 32, "PJRT_Buffer_ReadyEvent_Args"),
        (PJRT_TopologyDescription_Create_Args::STRUCT_SIZE, 56, "PJRT_TopologyDescription_Create_Args"),
        (PJRT_TopologyDescription_Destroy_Args::STRUCT_SIZE, 24, "PJRT_TopologyDescription_Destroy_Args"),
        (PJRT_TopologyDescription_PlatformName_Args::STRUCT_SIZE, 40, "PJRT_TopologyDescription_PlatformName_Args"),
        (
            PJRT_TopologyDescription_PlatformVersion_Args::STRUCT_SIZE,
            40,
            "PJRT_TopologyDescription_PlatformVersion_Args",
        ),
        (
            PJRT_TopologyDescription_GetDeviceDescriptions_Args::STRUCT_SIZE,
            40,
            "PJRT_TopologyDescription_GetDeviceDescriptions_Args",
        ),
        (PJRT_TopologyDescription_Attributes_Args::STRUCT_SIZE, 40, "PJRT_TopologyDescription_Attributes_Args"),
        (PJRT_Compile_Args::STRUCT_SIZE, 64, "PJRT_Compile_Args"),
        (PJRT_Api_Version::STRUCT_SIZE, 24, "PJRT_Api_Version"),
    ];
    for (ours, header, name) in sizes {
        assert_eq!(ours, header, "size of {name}");
    }
}

#[test]
fn functions_lie_where_the_header_puts_them() {
    assert_eq!(size_of::<PJRT_Api>(), 1144);
    let offsets = [
        (offset_of!(PJRT_Api, PJRT_Error_Destroy), 40),
        (offset_of!(PJRT_Api, PJRT_Event_OnReady), 112),
        (offset_of!(PJRT_Api, PJRT_Client_Create), 120),
        (offset_of!(PJRT_Api, PJRT_Client_Compile), 200),
        (offset_of!(PJRT_Api, PJRT_Client_BufferFromHostBuffer), 216),
        (offset_of!(PJRT_Api, PJRT_DeviceDescription_Kind), 248),
        (offset_of!(PJRT_Api, PJRT_Device_MemoryStats), 312),
        (offset_of!(PJRT_Api, PJRT_Executable_GetCostAnalysis), 408),
        (offset_of!(PJRT_Api, PJRT_Executable_Serialize), 432),
        (offset_of!(PJRT_Api, PJRT_LoadedExecutable_Execute), 480),
        (offset_of!(PJRT_Api, PJRT_Executable_DeserializeAndLoad), 488),
        (offset_of!(PJRT_Api, PJRT_Buffer_Destroy), 504),
        (offset_of!(PJRT_Api, PJRT_Buffer_ToHostBuffer), 600),
        (offset_of!(PJRT_Api, PJRT_TopologyDescription_Create), 696),
        (offset_of!(PJRT_Api, PJRT_Compile), 752),
        (offset_of!(PJRT_Api, PJRT_Executable_Fingerprint), 792),
        (offset_of!(PJRT_Api, PJRT_Executable_GetCompiledMemoryStats), 808),
        (offset_of!(PJRT_Api, PJRT_Client_Load), 1072),
    ];
    for (ours, header) in offsets {
        assert_eq!(ours, header);
    }
}

#[test]
fn fields_behind_unions_and_flags_lie_where_the_header_puts_them() {
    assert_eq!(offset_of!(PJRT_NamedValue, value_size), 48);
    assert_eq!(offset_of!(PJRT_Buffer_MemoryLayout, type_), 72);
    assert_eq!(offset_of!(PJRT_ExecuteOptions, non_donatable_input_indices), 56);
    assert_eq!(offset_of!(PJRT_Device_MemoryStats_Args, bytes_limit_is_set), 88);
    assert_eq!(offset_of!(PJRT_Client_BufferFromHostBuffer_Args, device), 80);
}

#[test]
fn a_shorter_table_of_an_older_plugin_ends_in_functions_that_do_not_exist() {
    unsafe extern "C" fn compile(_: *mut PJRT_Compile_Args) -> *mut PJRT_Error {
        std::ptr::null_mut()
    }
    // SAFETY: all-zero bytes are a valid table.
    let mut older: PJRT_Api = unsafe { std::mem::zeroed() };
    older.PJRT_Compile = Some(compile);
    older.struct_size = offset_of!(PJRT_Api, PJRT_Executable_OutputElementTypes);
    // What lies behind the end of an older table is anything but a function.
    // SAFETY: a non-null address is a valid function pointer as long as it is not called, and it is not.
    older.PJRT_Client_Load = Some(unsafe {
        std::mem::transmute::<usize, unsafe extern "C" fn(*mut PJRT_Client_Load_Args) -> *mut PJRT_Error>(1)
    });
    // SAFETY: `older` is larger than its `struct_size` says.
    let copy = unsafe { PJRT_Api::copied_from(&older) };
    assert!(copy.PJRT_Compile.is_some());
    assert!(copy.PJRT_Client_Load.is_none());
}
