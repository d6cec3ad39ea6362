//! The fake's buffers: copies are made by another thread, a while after they were requested.

use super::*;
use std::sync::RwLock;
use std::sync::atomic::AtomicU64;

/// A tensor of the fake. The contents arrive before `ready` is set; donation and deletion empty them.
pub(super) struct FakeBuffer {
    pub(super) element: i32,
    pub(super) dims: Vec<i64>,
    pub(super) bytes: Arc<RwLock<Vec<u8>>>,
    pub(super) ready: FakeEvent,
    pub(super) deleted: RwLock<bool>,
}

/// Bytes of a tensor of an element type of the interface.
#[allow(non_upper_case_globals, reason = "the names are the interface's")]
pub(super) fn bytes_of(element: i32, dims: &[i64]) -> usize {
    let each = match element {
        PJRT_Buffer_Type_PRED | PJRT_Buffer_Type_S8 | PJRT_Buffer_Type_U8 => 1,
        PJRT_Buffer_Type_S16 | PJRT_Buffer_Type_U16 | PJRT_Buffer_Type_F16 | PJRT_Buffer_Type_BF16 => 2,
        PJRT_Buffer_Type_S32 | PJRT_Buffer_Type_U32 | PJRT_Buffer_Type_F32 => 4,
        PJRT_Buffer_Type_S64 | PJRT_Buffer_Type_U64 | PJRT_Buffer_Type_F64 => 8,
        other => panic!("the fake does not know element type {other}"),
    };
    dims.iter().product::<i64>() as usize * each
}

pub(super) fn fill(table: &mut PJRT_Api) {
    table.PJRT_Client_BufferFromHostBuffer = Some(from_host);
    table.PJRT_Buffer_ToHostBuffer = Some(to_host);
    table.PJRT_Buffer_Destroy = Some(destroy);
    table.PJRT_Buffer_Delete = Some(delete);
    table.PJRT_Buffer_IsDeleted = Some(is_deleted);
    table.PJRT_Buffer_ElementType = Some(element_type);
    table.PJRT_Buffer_Dimensions = Some(dimensions);
    table.PJRT_Buffer_ReadyEvent = Some(ready_event);
}

unsafe extern "C" fn from_host(args: *mut PJRT_Client_BufferFromHostBuffer_Args) -> *mut PJRT_Error {
    static COPIES: AtomicU64 = AtomicU64::new(0);
    if setting("blocks") == Some(COPIES.fetch_add(1, Ordering::SeqCst) + 1) {
        block();
    }
    // SAFETY: the arguments are valid for the call.
    let args = unsafe { &mut *args };
    assert_eq!(args.host_buffer_semantics, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
    // SAFETY: the caller gives as many dimensions as it says.
    let dims = unsafe { crate::named_value::slice(args.dims, args.num_dims) }.to_vec();
    let size = bytes_of(args.type_, &dims);
    let buffer = FakeBuffer {
        element: args.type_,
        dims,
        bytes: Arc::default(),
        ready: FakeEvent::default(),
        deleted: RwLock::new(false),
    };
    let done = FakeEvent::default();
    let source = Portable(args.data.cast::<u8>().cast_mut());
    later({
        let (bytes, ready, done) = (buffer.bytes.clone(), buffer.ready.clone(), done.clone());
        move || {
            // SAFETY: the caller keeps the data until `done`; that it does is what the tests test.
            let data = unsafe { std::slice::from_raw_parts(source.get(), size) };
            bytes.write().unwrap().extend_from_slice(data);
            ready.set();
            done.set();
        }
    });
    args.buffer = into_pointer(buffer);
    args.done_with_host_buffer = into_pointer(done);
    null_mut()
}

unsafe extern "C" fn to_host(args: *mut PJRT_Buffer_ToHostBuffer_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    let (args, buffer) = unsafe { (&mut *args, borrow::<FakeBuffer, _>((*args).src)) };
    if *buffer.deleted.read().unwrap() {
        return fail(3, "Buffer has been deleted or donated.");
    }
    // SAFETY: the layout lives for the call.
    let layout = unsafe { &*args.host_layout };
    assert_eq!(layout.type_, PJRT_Buffer_MemoryLayout_Type_Tiled);
    assert_eq!(layout.tiled.minor_to_major_size, buffer.dims.len());
    let (bytes, ready, done) = (buffer.bytes.clone(), buffer.ready.clone(), FakeEvent::default());
    let (target, size) = (Portable(args.dst.cast::<u8>()), args.dst_size);
    if ready.is_lost() {
        args.event = into_pointer(FakeEvent::of_lost_work());
        return null_mut();
    }
    args.event = into_pointer(done.clone());
    later(move || {
        ready.wait();
        let bytes = bytes.read().unwrap();
        assert_eq!(bytes.len(), size);
        // SAFETY: the caller keeps the target until `done`; that it does is what the tests test.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.get(), size) };
        done.set();
    });
    null_mut()
}

unsafe extern "C" fn destroy(args: *mut PJRT_Buffer_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: buffers are returned as `FakeBuffer`s.
    drop(unsafe { from_pointer::<FakeBuffer, _>((*args).buffer) });
    null_mut()
}

unsafe extern "C" fn delete(args: *mut PJRT_Buffer_Delete_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { *borrow::<FakeBuffer, _>((*args).buffer).deleted.write().unwrap() = true };
    null_mut()
}

unsafe extern "C" fn is_deleted(args: *mut PJRT_Buffer_IsDeleted_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { (*args).is_deleted = *borrow::<FakeBuffer, _>((*args).buffer).deleted.read().unwrap() };
    null_mut()
}

unsafe extern "C" fn element_type(args: *mut PJRT_Buffer_ElementType_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { (*args).type_ = borrow::<FakeBuffer, _>((*args).buffer).element };
    null_mut()
}

unsafe extern "C" fn dimensions(args: *mut PJRT_Buffer_Dimensions_Args) -> *mut PJRT_Error {
    // SAFETY: as above; the dimensions live as long as the buffer.
    unsafe {
        let dims = &borrow::<FakeBuffer, _>((*args).buffer).dims;
        (*args).dims = dims.as_ptr();
        (*args).num_dims = dims.len();
    }
    null_mut()
}

unsafe extern "C" fn ready_event(args: *mut PJRT_Buffer_ReadyEvent_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { (*args).event = into_pointer(borrow::<FakeBuffer, _>((*args).buffer).ready.clone()) };
    null_mut()
}
