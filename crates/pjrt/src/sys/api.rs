//! The function table, every entry in the header's order.

use super::*;

/// A function of the table. `None` when the plugin is older than the function.
pub type Call<A> = Option<unsafe extern "C" fn(*mut A) -> *mut PJRT_Error>;
/// A function that Octant never calls: only its offset in the table matters.
type Unused = Option<unsafe extern "C" fn()>;

pjrt_structs! {
    PJRT_Api_Version { major_version: c_int, minor_version: c_int }
}

/// What `GetPjrtApi` returns.
#[repr(C)]
pub struct PJRT_Api {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub pjrt_api_version: PJRT_Api_Version,

    pub PJRT_Error_Destroy: Option<unsafe extern "C" fn(*mut PJRT_Error_Destroy_Args)>,
    pub PJRT_Error_Message: Option<unsafe extern "C" fn(*mut PJRT_Error_Message_Args)>,
    pub PJRT_Error_GetCode: Call<PJRT_Error_GetCode_Args>,
    pub PJRT_Plugin_Initialize: Call<PJRT_Plugin_Initialize_Args>,
    pub PJRT_Plugin_Attributes: Call<PJRT_Plugin_Attributes_Args>,
    pub PJRT_Event_Destroy: Call<PJRT_Event_Destroy_Args>,
    pub PJRT_Event_IsReady: Call<PJRT_Event_IsReady_Args>,
    pub PJRT_Event_Error: Call<PJRT_Event_Error_Args>,
    pub PJRT_Event_Await: Call<PJRT_Event_Await_Args>,
    pub PJRT_Event_OnReady: Call<PJRT_Event_OnReady_Args>,
    pub PJRT_Client_Create: Call<PJRT_Client_Create_Args>,
    pub PJRT_Client_Destroy: Call<PJRT_Client_Destroy_Args>,
    pub PJRT_Client_PlatformName: Call<PJRT_Client_PlatformName_Args>,
    pub PJRT_Client_ProcessIndex: Call<PJRT_Client_ProcessIndex_Args>,
    pub PJRT_Client_PlatformVersion: Call<PJRT_Client_PlatformVersion_Args>,
    pub PJRT_Client_Devices: Call<PJRT_Client_Devices_Args>,
    pub PJRT_Client_AddressableDevices: Call<PJRT_Client_AddressableDevices_Args>,
    pub PJRT_Client_LookupDevice: Unused,
    pub PJRT_Client_LookupAddressableDevice: Unused,
    pub PJRT_Client_AddressableMemories: Unused,
    pub PJRT_Client_Compile: Call<PJRT_Client_Compile_Args>,
    pub PJRT_Client_DefaultDeviceAssignment: Call<PJRT_Client_DefaultDeviceAssignment_Args>,
    pub PJRT_Client_BufferFromHostBuffer: Call<PJRT_Client_BufferFromHostBuffer_Args>,
    pub PJRT_DeviceDescription_Id: Call<PJRT_DeviceDescription_Id_Args>,
    pub PJRT_DeviceDescription_ProcessIndex: Call<PJRT_DeviceDescription_ProcessIndex_Args>,
    pub PJRT_DeviceDescription_Attributes: Call<PJRT_DeviceDescription_Attributes_Args>,
    pub PJRT_DeviceDescription_Kind: Call<PJRT_DeviceDescription_Kind_Args>,
    pub PJRT_DeviceDescription_DebugString: Call<PJRT_DeviceDescription_DebugString_Args>,
    pub PJRT_DeviceDescription_ToString: Unused,
    pub PJRT_Device_GetDescription: Call<PJRT_Device_GetDescription_Args>,
    pub PJRT_Device_IsAddressable: Unused,
    pub PJRT_Device_LocalHardwareId: Call<PJRT_Device_LocalHardwareId_Args>,
    pub PJRT_Device_AddressableMemories: Unused,
    pub PJRT_Device_DefaultMemory: Unused,
    pub PJRT_Device_MemoryStats: Call<PJRT_Device_MemoryStats_Args>,
    pub PJRT_Memory_Id: Unused,
    pub PJRT_Memory_Kind: Unused,
    pub PJRT_Memory_DebugString: Unused,
    pub PJRT_Memory_ToString: Unused,
    pub PJRT_Memory_AddressableByDevices: Unused,
    pub PJRT_Executable_Destroy: Call<PJRT_Executable_Destroy_Args>,
    pub PJRT_Executable_Name: Call<PJRT_Executable_Name_Args>,
    pub PJRT_Executable_NumReplicas: Unused,
    pub PJRT_Executable_NumPartitions: Call<PJRT_Executable_NumPartitions_Args>,
    pub PJRT_Executable_NumOutputs: Call<PJRT_Executable_NumOutputs_Args>,
    pub PJRT_Executable_SizeOfGeneratedCodeInBytes: Unused,
    pub PJRT_Executable_GetCostAnalysis: Call<PJRT_Executable_GetCostAnalysis_Args>,
    pub PJRT_Executable_OutputMemoryKinds: Unused,
    pub PJRT_Executable_OptimizedProgram: Call<PJRT_Executable_OptimizedProgram_Args>,
    pub PJRT_Executable_Serialize: Call<PJRT_Executable_Serialize_Args>,
    pub PJRT_LoadedExecutable_Destroy: Call<PJRT_LoadedExecutable_Destroy_Args>,
    pub PJRT_LoadedExecutable_GetExecutable: Call<PJRT_LoadedExecutable_GetExecutable_Args>,
    pub PJRT_LoadedExecutable_AddressableDevices: Call<PJRT_LoadedExecutable_AddressableDevices_Args>,
    pub PJRT_LoadedExecutable_Delete: Unused,
    pub PJRT_LoadedExecutable_IsDeleted: Unused,
    pub PJRT_LoadedExecutable_Execute: Call<PJRT_LoadedExecutable_Execute_Args>,
    pub PJRT_Executable_DeserializeAndLoad: Call<PJRT_Executable_DeserializeAndLoad_Args>,
    pub PJRT_LoadedExecutable_Fingerprint: Unused,
    pub PJRT_Buffer_Destroy: Call<PJRT_Buffer_Destroy_Args>,
    pub PJRT_Buffer_ElementType: Call<PJRT_Buffer_ElementType_Args>,
    pub PJRT_Buffer_Dimensions: Call<PJRT_Buffer_Dimensions_Args>,
    pub PJRT_Buffer_UnpaddedDimensions: Unused,
    pub PJRT_Buffer_DynamicDimensionIndices: Unused,
    pub PJRT_Buffer_GetMemoryLayout: Unused,
    pub PJRT_Buffer_OnDeviceSizeInBytes: Call<PJRT_Buffer_OnDeviceSizeInBytes_Args>,
    pub PJRT_Buffer_Device: Call<PJRT_Buffer_Device_Args>,
    pub PJRT_Buffer_Memory: Unused,
    pub PJRT_Buffer_Delete: Call<PJRT_Buffer_Delete_Args>,
    pub PJRT_Buffer_IsDeleted: Call<PJRT_Buffer_IsDeleted_Args>,
    pub PJRT_Buffer_CopyToDevice: Unused,
    pub PJRT_Buffer_ToHostBuffer: Call<PJRT_Buffer_ToHostBuffer_Args>,
    pub PJRT_Buffer_IsOnCpu: Unused,
    pub PJRT_Buffer_ReadyEvent: Call<PJRT_Buffer_ReadyEvent_Args>,
    pub PJRT_Buffer_UnsafePointer: Unused,
    pub PJRT_Buffer_IncreaseExternalReferenceCount: Unused,
    pub PJRT_Buffer_DecreaseExternalReferenceCount: Unused,
    pub PJRT_Buffer_OpaqueDeviceMemoryDataPointer: Unused,
    pub PJRT_CopyToDeviceStream_Destroy: Unused,
    pub PJRT_CopyToDeviceStream_AddChunk: Unused,
    pub PJRT_CopyToDeviceStream_TotalBytes: Unused,
    pub PJRT_CopyToDeviceStream_GranuleSize: Unused,
    pub PJRT_CopyToDeviceStream_CurrentBytes: Unused,
    pub PJRT_TopologyDescription_Create: Call<PJRT_TopologyDescription_Create_Args>,
    pub PJRT_TopologyDescription_Destroy: Call<PJRT_TopologyDescription_Destroy_Args>,
    pub PJRT_TopologyDescription_PlatformName: Call<PJRT_TopologyDescription_PlatformName_Args>,
    pub PJRT_TopologyDescription_PlatformVersion: Call<PJRT_TopologyDescription_PlatformVersion_Args>,
    pub PJRT_TopologyDescription_GetDeviceDescriptions: Call<PJRT_TopologyDescription_GetDeviceDescriptions_Args>,
    pub PJRT_TopologyDescription_Serialize: Unused,
    pub PJRT_TopologyDescription_Attributes: Call<PJRT_TopologyDescription_Attributes_Args>,
    pub PJRT_Compile: Call<PJRT_Compile_Args>,
    pub PJRT_Executable_OutputElementTypes: Unused,
    pub PJRT_Executable_OutputDimensions: Unused,
    pub PJRT_Buffer_CopyToMemory: Unused,
    pub PJRT_Client_CreateViewOfDeviceBuffer: Unused,
    pub PJRT_Executable_Fingerprint: Call<PJRT_Executable_Fingerprint_Args>,
    pub PJRT_Client_TopologyDescription: Call<PJRT_Client_TopologyDescription_Args>,
    pub PJRT_Executable_GetCompiledMemoryStats: Call<PJRT_Executable_GetCompiledMemoryStats_Args>,
    pub PJRT_Memory_Kind_Id: Unused,
    pub PJRT_ExecuteContext_Create: Unused,
    pub PJRT_ExecuteContext_Destroy: Unused,
    pub PJRT_Buffer_CopyRawToHost: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_Destroy: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_TransferData: Unused,
    pub PJRT_Client_CreateBuffersForAsyncHostToDevice: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_Device: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_BufferCount: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_BufferSize: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_SetBufferError: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_AddMetadata: Unused,
    pub PJRT_Client_DmaMap: Unused,
    pub PJRT_Client_DmaUnmap: Unused,
    pub PJRT_Client_CreateUninitializedBuffer: Unused,
    pub PJRT_Client_UpdateGlobalProcessInfo: Unused,
    pub PJRT_TopologyDescription_Deserialize: Unused,
    pub PJRT_Client_CreateAliasBuffer: Unused,
    pub PJRT_Client_FulfillAliasBuffer: Unused,
    pub PJRT_LoadedExecutable_GetDeviceAssignment: Unused,
    pub PJRT_Client_CreateErrorBuffer: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_TransferLiteral: Unused,
    pub PJRT_Buffer_CopyRawToHostFuture: Unused,
    pub PJRT_Device_PoisonExecution: Unused,
    pub PJRT_Device_CreateAsyncTrackingEvent: Unused,
    pub PJRT_AsyncTrackingEvent_Destroy: Unused,
    pub PJRT_Executable_GetCompileOptions: Unused,
    pub PJRT_Buffer_DonateWithControlDependency: Unused,
    pub PJRT_Event_Create: Unused,
    pub PJRT_Event_Set: Unused,
    pub PJRT_Device_GetAttributes: Unused,
    pub PJRT_Client_Load: Call<PJRT_Client_Load_Args>,
    pub PJRT_LoadedExecutable_AddressableDeviceLogicalIds: Unused,
    pub PJRT_Buffer_Bitcast: Unused,
    pub PJRT_Error_ForEachPayload: Unused,
    pub PJRT_TopologyDescription_Fingerprint: Unused,
    pub PJRT_Executable_ParameterMemoryKinds: Unused,
    pub PJRT_Device_ClearMemoryStats: Unused,
    pub PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace: Unused,
    pub PJRT_TopologyDescription_GetMemorySpaceKindIds: Unused,
}

impl PJRT_Api {
    /// A copy of the plugin's table in which functions that the plugin does not have are `None`.
    ///
    /// # Safety
    /// `table` must point to a table that begins with its `struct_size` and holds that many bytes.
    pub unsafe fn copied_from(table: *const PJRT_Api) -> PJRT_Api {
        // SAFETY: integers, raw pointers and `Option`s of functions may all be zero.
        let mut copy: PJRT_Api = unsafe { std::mem::zeroed() };
        // SAFETY: the caller guarantees `struct_size` readable bytes, and we write no more than our own struct holds.
        unsafe {
            let known = (*table).struct_size.min(size_of::<PJRT_Api>());
            std::ptr::copy_nonoverlapping(table.cast::<u8>(), (&raw mut copy).cast::<u8>(), known);
        }
        copy
    }
}
