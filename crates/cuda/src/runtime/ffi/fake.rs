//! Frames as XLA makes them, for tests without a GPU.

use super::*;
use std::ffi::CStr;

/// The version that the table states.
pub const VERSION: (c_int, c_int) = (0, 4);

unsafe extern "C" fn create_error(args: *mut ErrorCreateArgs) -> *mut Error {
    // SAFETY: `CallFrame::error` hands over a struct of its own.
    unsafe { CStr::from_ptr((*args).message).to_owned().into_raw().cast() }
}

unsafe extern "C" fn no_stream(_: *mut StreamGetArgs) -> *mut Error {
    c"no stream".to_owned().into_raw().cast()
}

fn api() -> Api {
    let (major, minor) = VERSION;
    Api {
        struct_size: size_of::<Api>(),
        extension_start: null_mut(),
        api_version: ApiVersion { struct_size: size_of::<ApiVersion>(), extension_start: null_mut(), major, minor },
        internal_api: null(),
        error_create: create_error,
        error_get_details: null(),
        error_destroy: null(),
        handler_register: null(),
        stream_get: no_stream,
    }
}

/// A buffer at an address that is never read.
pub fn buffer(address: usize, dims: &[i64]) -> FfiBuffer {
    FfiBuffer {
        struct_size: size_of::<FfiBuffer>(),
        extension_start: null_mut(),
        dtype: 0,
        data: address as *mut c_void,
        rank: dims.len() as i64,
        dims: dims.as_ptr(),
    }
}

fn buffers(list: &[*const FfiBuffer]) -> Buffers {
    Buffers {
        struct_size: size_of::<Buffers>(),
        extension_start: null_mut(),
        size: list.len() as i64,
        types: null(),
        buffers: list.as_ptr(),
    }
}

/// Calls a handler at a stage with an attribute `integers`, and returns its error.
pub fn call(handler: Handler, stage: c_int, integers: &[i64]) -> Option<String> {
    let array = Array { dtype: S64, size: integers.len(), data: integers.as_ptr().cast() };
    let name = Bytes { start: "integers".as_ptr(), length: 8 };
    let (types, names, values) = ([ARRAY], [&raw const name], [(&raw const array).cast::<c_void>()]);
    let attributes = Attributes {
        struct_size: size_of::<Attributes>(),
        extension_start: null_mut(),
        size: 1,
        types: types.as_ptr(),
        names: names.as_ptr(),
        values: values.as_ptr(),
    };
    let api = api();
    let mut frame = CallFrame {
        struct_size: size_of::<CallFrame>(),
        extension_start: null_mut(),
        api: &api,
        context: null_mut(),
        stage,
        arguments: buffers(&[]),
        results: buffers(&[]),
        attributes,
    };
    // SAFETY: the frame is complete, and errors are texts of `create_error`.
    unsafe {
        let error = handler(&mut frame);
        let text = |error: *mut Error| CString::from_raw(error.cast()).to_string_lossy().into_owned();
        (!error.is_null()).then(|| text(error))
    }
}

/// Requests a handler's version and traits.
pub fn metadata(handler: Handler) -> (c_int, c_int, u32) {
    let version =
        ApiVersion { struct_size: size_of::<ApiVersion>(), extension_start: null_mut(), major: -1, minor: -1 };
    let mut metadata = Metadata { struct_size: size_of::<Metadata>(), api_version: version, traits: 0 };
    let base = Extension { struct_size: size_of::<MetadataExtension>(), kind: METADATA, next: null_mut() };
    let mut extension = MetadataExtension { base, metadata: &mut metadata };
    let api = api();
    let nothing = Attributes {
        struct_size: size_of::<Attributes>(),
        extension_start: null_mut(),
        size: 0,
        types: null(),
        names: null(),
        values: null(),
    };
    let mut frame = CallFrame {
        struct_size: size_of::<CallFrame>(),
        extension_start: (&raw mut extension).cast(),
        api: &api,
        context: null_mut(),
        stage: EXECUTE,
        arguments: buffers(&[]),
        results: buffers(&[]),
        attributes: nothing,
    };
    // SAFETY: the frame and its extension are complete.
    let error = unsafe { handler(&mut frame) };
    assert!(error.is_null());
    (metadata.api_version.major, metadata.api_version.minor, metadata.traits)
}
