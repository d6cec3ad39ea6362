//! The fake's boards: whatever their name, they have the devices and the compiler of the fake itself.

use super::*;

pub(super) fn fill(table: &mut PJRT_Api) {
    table.PJRT_TopologyDescription_Create = Some(create);
    table.PJRT_TopologyDescription_Destroy = Some(destroy);
    table.PJRT_TopologyDescription_PlatformVersion = Some(version);
    table.PJRT_TopologyDescription_GetDeviceDescriptions = Some(descriptions);
    table.PJRT_TopologyDescription_Attributes = Some(attributes);
    table.PJRT_Client_TopologyDescription = Some(of_client);
}

struct FakeTopology;
/// Belongs to the client, as the interface wants it.
static OF_CLIENT: FakeTopology = FakeTopology;

unsafe extern "C" fn create(args: *mut PJRT_TopologyDescription_Create_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    unsafe { (*args).topology = into_pointer(FakeTopology) };
    null_mut()
}

unsafe extern "C" fn destroy(args: *mut PJRT_TopologyDescription_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: the topology came from `create`.
    let _ = unsafe { from_pointer::<FakeTopology, _>((*args).topology) };
    null_mut()
}

unsafe extern "C" fn of_client(args: *mut PJRT_Client_TopologyDescription_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call; nobody writes through the pointer.
    unsafe { (*args).topology = (&raw const OF_CLIENT).cast_mut().cast() };
    null_mut()
}

unsafe extern "C" fn version(args: *mut PJRT_TopologyDescription_PlatformVersion_Args) -> *mut PJRT_Error {
    const VERSION: &str = "the fake's compiler 7";
    // SAFETY: the arguments are valid for the call.
    unsafe {
        (*args).platform_version = VERSION.as_ptr().cast();
        (*args).platform_version_size = VERSION.len();
    }
    null_mut()
}

unsafe extern "C" fn descriptions(args: *mut PJRT_TopologyDescription_GetDeviceDescriptions_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call; a device is its own description.
    unsafe {
        (*args).descriptions = devices().as_ptr().cast();
        (*args).num_descriptions = devices().len();
    }
    null_mut()
}

unsafe extern "C" fn attributes(_: *mut PJRT_TopologyDescription_Attributes_Args) -> *mut PJRT_Error {
    null_mut()
}
