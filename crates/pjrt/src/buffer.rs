//! Buffers: tensors in a device's memory, and copies to and from the host.

use crate::client::{Client, PjrtDevice};
use crate::error::{PjrtError, Result};
use crate::event::PjrtEvent;
use crate::named_value::slice;
use crate::plugin::call;
use crate::sys;
use octant_tensor::{AlignedBytes, Bytes, DType, HostTensor, Shape};
use std::sync::OnceLock;

/// A tensor in the memory of one device, perhaps not yet computed. Dropping it frees the memory as soon as the work
/// that uses it is done.
pub struct PjrtBuffer {
    client: Client,
    buffer: *mut sys::PJRT_Buffer,
    shape: OnceLock<Shape>,
}

// SAFETY: the interface allows buffers to be used from any thread.
unsafe impl Send for PjrtBuffer {}
// SAFETY: as above.
unsafe impl Sync for PjrtBuffer {}

impl PjrtBuffer {
    /// # Safety
    /// `buffer` must be a live buffer of `client` that is destroyed only here.
    pub(crate) unsafe fn new(client: Client, buffer: *mut sys::PJRT_Buffer) -> PjrtBuffer {
        PjrtBuffer { client, buffer, shape: OnceLock::new() }
    }

    pub(crate) fn raw(&self) -> *mut sys::PJRT_Buffer {
        self.buffer
    }

    /// Starts a copy of `tensor` to `device` and returns at once. The tensor's bytes are shared and stay alive until
    /// the plugin has read them, whatever the caller does with its own handle.
    pub fn from_host(device: &PjrtDevice, tensor: &HostTensor) -> Result<PjrtBuffer> {
        let client = device.client().clone();
        let plugin = client.plugin().clone();
        let bytes: Bytes = tensor.bytes().clone();
        let dims: Vec<i64> = tensor.dims().iter().map(|&dim| dim as i64).collect();
        let mut args = sys::PJRT_Client_BufferFromHostBuffer_Args {
            client: client.inner.client,
            data: bytes.as_ptr().cast(),
            type_: type_to_c(tensor.dtype()),
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            // Zero-copy would tie the device's buffer to host memory; "until the transfer completes" lets the plugin
            // read straight from our pages without that.
            host_buffer_semantics: sys::PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
            device: device.device,
            ..Default::default()
        };
        // SAFETY: client and device are alive, `dims` lives for the call, and `bytes` is kept below until the plugin
        // reports that it is done with them. Without strides or a layout the data are dense and row-major.
        let (buffer, done) = unsafe {
            call!(plugin, PJRT_Client_BufferFromHostBuffer, args)?;
            (PjrtBuffer::new(client, args.buffer), PjrtEvent::new(plugin, args.done_with_host_buffer))
        };
        // A failed transfer shows when the buffer is used; here only the lifetime of the bytes matters.
        if done
            .on_ready({
                let bytes = bytes.clone();
                move |_| drop(bytes)
            })
            .is_err()
        {
            done.wait()?;
        }
        Ok(buffer)
    }

    /// Starts a copy to the host and returns at once.
    pub fn to_host(&self) -> Result<PendingHostTensor> {
        let shape = self.shape()?.clone();
        let mut bytes = AlignedBytes::zeroed(shape.bytes());
        // Devices may prefer other orders; on the host tensors are row-major: the last axis varies fastest.
        let minor_to_major: Vec<i64> = (0..shape.rank() as i64).rev().collect();
        let mut layout = sys::PJRT_Buffer_MemoryLayout {
            tiled: sys::PJRT_Buffer_MemoryLayout_Tiled {
                minor_to_major: minor_to_major.as_ptr(),
                minor_to_major_size: minor_to_major.len(),
                ..Default::default()
            },
            type_: sys::PJRT_Buffer_MemoryLayout_Type_Tiled,
            ..Default::default()
        };
        let mut args = sys::PJRT_Buffer_ToHostBuffer_Args {
            src: self.buffer,
            host_layout: &mut layout,
            dst: bytes.as_mut_ptr().cast(),
            dst_size: bytes.len(),
            ..Default::default()
        };
        let plugin = self.client.plugin();
        // SAFETY: the buffer is alive, the layout lives for the call, and `bytes` is neither read, moved nor freed
        // before the event signals that the copy is complete (see `PendingHostTensor`).
        let done = unsafe {
            call!(plugin, PJRT_Buffer_ToHostBuffer, args)?;
            PjrtEvent::new(plugin.clone(), args.event)
        };
        Ok(PendingHostTensor { shape, bytes: Some(bytes), done })
    }

    /// Element type and dimensions. (On several devices: of this device's part.)
    pub fn shape(&self) -> Result<&Shape> {
        if let Some(shape) = self.shape.get() {
            return Ok(shape);
        }
        let plugin = self.client.plugin();
        let mut element = sys::PJRT_Buffer_ElementType_Args { buffer: self.buffer, ..Default::default() };
        let mut dims = sys::PJRT_Buffer_Dimensions_Args { buffer: self.buffer, ..Default::default() };
        // SAFETY: the buffer is alive, and its dimensions are copied.
        let dims: Vec<usize> = unsafe {
            call!(plugin, PJRT_Buffer_ElementType, element)?;
            call!(plugin, PJRT_Buffer_Dimensions, dims)?;
            slice(dims.dims, dims.num_dims).iter().map(|&dim| dim as usize).collect()
        };
        let shape = Shape::new(type_from_c(element.type_)?, dims);
        Ok(self.shape.get_or_init(|| shape))
    }

    /// Bytes on the device, with the padding of its layout.
    pub fn size_on_device(&self) -> Result<usize> {
        let mut args = sys::PJRT_Buffer_OnDeviceSizeInBytes_Args { buffer: self.buffer, ..Default::default() };
        // SAFETY: the buffer is alive.
        unsafe { call!(self.client.inner.plugin, PJRT_Buffer_OnDeviceSizeInBytes, args)? };
        Ok(args.on_device_size_in_bytes)
    }

    /// When the contents are there, or have failed to be computed.
    pub fn ready(&self) -> Result<PjrtEvent> {
        let mut args = sys::PJRT_Buffer_ReadyEvent_Args { buffer: self.buffer, ..Default::default() };
        let plugin = self.client.plugin();
        // SAFETY: the buffer is alive, and the event is ours to free.
        unsafe {
            call!(plugin, PJRT_Buffer_ReadyEvent, args)?;
            Ok(PjrtEvent::new(plugin.clone(), args.event))
        }
    }

    /// Gives the device's memory back now; the handle stays, but holds nothing.
    pub fn delete(&self) -> Result<()> {
        let mut args = sys::PJRT_Buffer_Delete_Args { buffer: self.buffer, ..Default::default() };
        // SAFETY: the buffer is alive; running work keeps the memory until it is done.
        unsafe { call!(self.client.inner.plugin, PJRT_Buffer_Delete, args) }
    }

    /// Whether the memory is gone: deleted, or donated to an execution.
    pub fn is_deleted(&self) -> Result<bool> {
        let mut args = sys::PJRT_Buffer_IsDeleted_Args { buffer: self.buffer, ..Default::default() };
        // SAFETY: the buffer is alive.
        unsafe { call!(self.client.inner.plugin, PJRT_Buffer_IsDeleted, args)? };
        Ok(args.is_deleted)
    }
}

impl Drop for PjrtBuffer {
    fn drop(&mut self) {
        let mut args = sys::PJRT_Buffer_Destroy_Args { buffer: self.buffer, ..Default::default() };
        // SAFETY: the buffer is ours and not used again; running work keeps what it needs.
        let _ = unsafe { call!(self.client.inner.plugin, PJRT_Buffer_Destroy, args) };
    }
}

/// A copy to the host that may not be complete.
pub struct PendingHostTensor {
    shape: Shape,
    /// Empty only after the copy is complete and the bytes have been returned.
    bytes: Option<AlignedBytes>,
    done: PjrtEvent,
}

impl PendingHostTensor {
    /// Whether [`wait`](PendingHostTensor::wait) would return at once.
    pub fn is_ready(&self) -> Result<bool> {
        self.done.is_ready()
    }

    /// Waits for the copy.
    pub fn wait(mut self) -> Result<HostTensor> {
        self.done.wait()?;
        let bytes = self.bytes.take().ok_or_else(|| PjrtError::Misuse("the tensor was already taken".into()))?;
        HostTensor::from_bytes(self.shape.clone(), Bytes::new(bytes))
            .map_err(|error| PjrtError::Broken(error.to_string()))
    }
}

impl Drop for PendingHostTensor {
    fn drop(&mut self) {
        // The plugin may still be writing: the bytes must outlive that.
        if let Some(bytes) = self.bytes.take()
            && self.done.wait().is_err()
            && !self.done.is_ready().unwrap_or(false)
        {
            std::mem::forget(bytes);
        }
    }
}

fn type_to_c(dtype: DType) -> sys::PJRT_Buffer_Type {
    match dtype {
        DType::Bool => sys::PJRT_Buffer_Type_PRED,
        DType::I8 => sys::PJRT_Buffer_Type_S8,
        DType::I16 => sys::PJRT_Buffer_Type_S16,
        DType::I32 => sys::PJRT_Buffer_Type_S32,
        DType::I64 => sys::PJRT_Buffer_Type_S64,
        DType::U8 => sys::PJRT_Buffer_Type_U8,
        DType::U16 => sys::PJRT_Buffer_Type_U16,
        DType::U32 => sys::PJRT_Buffer_Type_U32,
        DType::U64 => sys::PJRT_Buffer_Type_U64,
        DType::F16 => sys::PJRT_Buffer_Type_F16,
        DType::BF16 => sys::PJRT_Buffer_Type_BF16,
        DType::F32 => sys::PJRT_Buffer_Type_F32,
        DType::F64 => sys::PJRT_Buffer_Type_F64,
    }
}

fn type_from_c(raw: sys::PJRT_Buffer_Type) -> Result<DType> {
    let dtype = DType::ALL.into_iter().find(|&dtype| type_to_c(dtype) == raw);
    dtype.ok_or_else(|| PjrtError::Broken(format!("a buffer has element type number {raw}, which Octant does not use")))
}
