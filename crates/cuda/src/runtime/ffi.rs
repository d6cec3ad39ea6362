//! XLA's interface for foreign functions (`xla/ffi/api/c_api.h`, version 0.x), as far as a handler needs it.
//!
//! XLA calls a handler with a frame that holds the stage, the buffers and the attributes of the call.
//! Structs only ever grow at their ends, so the fields here are valid for every version.

use std::ffi::{CString, c_char, c_int, c_void};
#[cfg(test)]
use std::ptr::null;
use std::ptr::null_mut;

/// A function that XLA calls.
pub type Handler = unsafe extern "C" fn(*mut CallFrame) -> *mut Error;

/// XLA's own kind of error.
pub enum Error {}

#[repr(C)]
struct Extension {
    struct_size: usize,
    kind: c_int,
    next: *mut Extension,
}

const METADATA: c_int = 1;

#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

#[repr(C)]
struct Metadata {
    struct_size: usize,
    api_version: ApiVersion,
    traits: u32,
}

/// The call only starts kernels on its stream, so XLA may record it into a CUDA graph and replay that.
const COMMAND_BUFFER_COMPATIBLE: u32 = 1;

#[repr(C)]
struct ApiVersion {
    struct_size: usize,
    extension_start: *mut Extension,
    major: c_int,
    minor: c_int,
}

#[repr(C)]
struct ErrorCreateArgs {
    struct_size: usize,
    extension_start: *mut Extension,
    message: *const c_char,
    code: c_int,
}

const INTERNAL: c_int = 13;

#[repr(C)]
struct StreamGetArgs {
    struct_size: usize,
    extension_start: *mut Extension,
    context: *mut c_void,
    stream: *mut c_void,
}

#[repr(C)]
struct Api {
    struct_size: usize,
    extension_start: *mut Extension,
    api_version: ApiVersion,
    internal_api: *const c_void,
    error_create: unsafe extern "C" fn(*mut ErrorCreateArgs) -> *mut Error,
    error_get_details: *const c_void,
    error_destroy: *const c_void,
    handler_register: *const c_void,
    stream_get: unsafe extern "C" fn(*mut StreamGetArgs) -> *mut Error,
}

/// A list of buffers.
#[repr(C)]
struct Buffers {
    struct_size: usize,
    extension_start: *mut Extension,
    size: i64,
    types: *const c_int,
    buffers: *const *const FfiBuffer,
}

/// A row-major tensor on the device.
#[repr(C)]
pub struct FfiBuffer {
    struct_size: usize,
    extension_start: *mut Extension,
    dtype: c_int,
    /// Its address on the device.
    pub data: *mut c_void,
    rank: i64,
    dims: *const i64,
}

impl FfiBuffer {
    /// The lengths of its axes.
    pub fn dims(&self) -> &[i64] {
        // SAFETY: XLA gives their number, and keeps them for the duration of the call.
        unsafe { slice(self.dims, self.rank) }
    }
}

#[repr(C)]
struct Attributes {
    struct_size: usize,
    extension_start: *mut Extension,
    size: i64,
    types: *const c_int,
    names: *const *const Bytes,
    values: *const *const c_void,
}

const ARRAY: c_int = 1;
const STRING: c_int = 4;

#[repr(C)]
struct Bytes {
    start: *const u8,
    length: usize,
}

#[repr(C)]
struct Array {
    dtype: c_int,
    size: usize,
    data: *const c_void,
}

const S64: c_int = 5;

const INSTANTIATE: c_int = 0;
const EXECUTE: c_int = 3;

/// One call of a handler.
#[repr(C)]
pub struct CallFrame {
    struct_size: usize,
    extension_start: *mut Extension,
    api: *const Api,
    context: *mut c_void,
    stage: c_int,
    arguments: Buffers,
    results: Buffers,
    attributes: Attributes,
}

/// What XLA calls a handler for.
pub enum ExecutionStage {
    /// The program is loaded: attributes are given, buffers are not.
    Instantiate,
    /// The program runs.
    Execute,
}

/// # Safety
/// `start` must be null or point to that many values.
unsafe fn slice<'a, T>(start: *const T, length: i64) -> &'a [T] {
    match usize::try_from(length) {
        // SAFETY: passed on from the caller.
        Ok(length) if !start.is_null() => unsafe { std::slice::from_raw_parts(start, length) },
        _ => &[],
    }
}

impl CallFrame {
    /// The buffers of the operands, and of the results.
    pub fn buffers(&self) -> [Vec<&FfiBuffer>; 2] {
        let of = |list: &Buffers| {
            // SAFETY: XLA's lists hold as many pointers as they say, to buffers that live as long as the call.
            unsafe { slice(list.buffers, list.size).iter().filter_map(|buffer| buffer.as_ref()).collect::<Vec<_>>() }
        };
        [of(&self.arguments), of(&self.results)]
    }

    /// The attribute of that name, an array of whole numbers.
    pub fn integers(&self, name: &str) -> Result<&[i64], String> {
        // SAFETY: an attribute of this kind is such an array, which holds as many numbers as it says.
        unsafe {
            let array = self.attribute(name, ARRAY).map(|value| &*value.cast::<Array>());
            let array = array.filter(|array| array.dtype == S64);
            let array = array.ok_or_else(|| format!("the call has no whole numbers {name}"))?;
            Ok(slice(array.data.cast(), array.size as i64))
        }
    }

    /// The attribute of that name, a text.
    pub fn text(&self, name: &str) -> Result<&str, String> {
        // SAFETY: an attribute of this kind is such bytes, of which there are as many as it says.
        let bytes = self.attribute(name, STRING).map(|value| unsafe {
            let bytes = &*value.cast::<Bytes>();
            slice(bytes.start, bytes.length as i64)
        });
        let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.ok_or_else(|| format!("the call has no text {name}"))
    }

    /// Where the attribute of that name lies, if it is of that kind.
    fn attribute(&self, name: &str, kind: c_int) -> Option<*const c_void> {
        let list = &self.attributes;
        // SAFETY: the three lists hold as many entries as XLA says.
        unsafe {
            let (names, types) = (slice(list.names, list.size), slice(list.types, list.size));
            let named = |at: &*const Bytes| slice((**at).start, (**at).length as i64) == name.as_bytes();
            let position = names.iter().position(named).filter(|&position| types[position] == kind)?;
            Some(slice(list.values, list.size)[position])
        }
    }

    /// The stream that the call belongs to.
    pub fn stream(&self) -> Result<*mut c_void, String> {
        let struct_size = size_of::<StreamGetArgs>();
        let mut args =
            StreamGetArgs { struct_size, extension_start: null_mut(), context: self.context, stream: null_mut() };
        // SAFETY: the frame's table lives as long as the process, and the context as long as the call.
        let error = unsafe { ((*self.api).stream_get)(&mut args) };
        if error.is_null() { Ok(args.stream) } else { Err("the call has no stream".to_string()) }
    }

    fn error(&self, message: &str) -> *mut Error {
        let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
        let mut args = ErrorCreateArgs {
            struct_size: size_of::<ErrorCreateArgs>(),
            extension_start: null_mut(),
            message: message.as_ptr(),
            code: INTERNAL,
        };
        // SAFETY: XLA copies the message and owns the error that comes back.
        unsafe { ((*self.api).error_create)(&mut args) }
    }

    /// Fills in the handler's version and traits, if this call requests them.
    fn fill_metadata(&mut self) -> bool {
        // SAFETY: a link of this kind is the beginning of that extension, and XLA requests its metadata to be filled in.
        unsafe {
            let Some(link) = self.extension_start.as_ref().filter(|link| link.kind == METADATA) else { return false };
            let metadata = &mut *(*(link as *const Extension).cast::<MetadataExtension>()).metadata;
            // Only fields that every version has are used, so the handler reports XLA's own version.
            let version = &(*self.api).api_version;
            (metadata.api_version.major, metadata.api_version.minor) = (version.major, version.minor);
            metadata.traits = COMMAND_BUFFER_COMPATIBLE;
            true
        }
    }
}

/// Runs a handler: handles metadata requests, decodes the stage and converts errors.
///
/// # Safety
/// `frame` must come from XLA.
pub unsafe fn handle(
    frame: *mut CallFrame,
    work: impl Fn(&CallFrame, ExecutionStage) -> Result<(), String>,
) -> *mut Error {
    // SAFETY: passed on from the caller.
    let frame = unsafe { &mut *frame };
    if frame.fill_metadata() {
        return null_mut();
    }
    let stage = match frame.stage {
        INSTANTIATE => ExecutionStage::Instantiate,
        EXECUTE => ExecutionStage::Execute,
        _ => return null_mut(),
    };
    match work(frame, stage) {
        Ok(()) => null_mut(),
        Err(message) => frame.error(&message),
    }
}

#[cfg(test)]
pub mod fake;
