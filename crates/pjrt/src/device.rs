//! Devices: those of a client, and the descriptions of those of an ahead-of-time topology.

use crate::error::{Code, PjrtError, Result};
use crate::named_value::{AttributeValue, NamedValues, from_c, text};
use crate::plugin::{Plugin, call};
use crate::sys;

/// What a device is: the same for one that is here and for one of a topology.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceDescription {
    /// Its number, unique among all devices of the platform; device assignments use it.
    pub id: i32,
    /// The host it is attached to, where the plugin reports it.
    pub host: Option<i32>,
    /// The vendor's name for the kind of device, such as `TPU v3` or `NVIDIA H200`.
    pub kind: String,
    /// A long form for logs.
    pub debug: String,
    /// Further attributes: `coords`, `core_on_chip`, `compute_capability`, …
    pub attributes: NamedValues,
}

impl DeviceDescription {
    /// Where the device's chip lies on the board, for platforms that have such a thing.
    pub fn coords(&self) -> Option<&[i64]> {
        match self.attributes.get("coords") {
            Some(AttributeValue::Ints(coords)) => Some(coords),
            _ => None,
        }
    }

    /// # Safety
    /// `description` must be a live description of `plugin`.
    pub(crate) unsafe fn read(
        plugin: &Plugin,
        description: *mut sys::PJRT_DeviceDescription,
    ) -> Result<DeviceDescription> {
        let device_description = description;
        let mut id = sys::PJRT_DeviceDescription_Id_Args { device_description, ..Default::default() };
        let mut host = sys::PJRT_DeviceDescription_ProcessIndex_Args { device_description, ..Default::default() };
        let mut kind = sys::PJRT_DeviceDescription_Kind_Args { device_description, ..Default::default() };
        let mut debug = sys::PJRT_DeviceDescription_DebugString_Args { device_description, ..Default::default() };
        let mut attributes = sys::PJRT_DeviceDescription_Attributes_Args { device_description, ..Default::default() };
        // SAFETY: the caller guarantees the description; what the plugin returns lives as long as it, and is copied.
        unsafe {
            call!(plugin, PJRT_DeviceDescription_Id, id)?;
            let has_host = call!(plugin, PJRT_DeviceDescription_ProcessIndex, host).is_ok();
            call!(plugin, PJRT_DeviceDescription_Kind, kind)?;
            call!(plugin, PJRT_DeviceDescription_DebugString, debug)?;
            call!(plugin, PJRT_DeviceDescription_Attributes, attributes)?;
            Ok(DeviceDescription {
                id: id.id,
                host: has_host.then_some(host.process_index),
                kind: text(kind.device_kind, kind.device_kind_size),
                debug: text(debug.debug_string, debug.debug_string_size),
                attributes: from_c(attributes.attributes, attributes.num_attributes),
            })
        }
    }
}

/// How much of a device's memory is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryStats {
    /// Bytes in buffers and programs.
    pub in_use: u64,
    /// The most that was ever in use.
    pub peak_in_use: Option<u64>,
    /// Bytes that may be used at all.
    pub limit: Option<u64>,
    /// The largest buffer that would still fit in one piece.
    pub largest_free_block: Option<u64>,
}

/// # Safety
/// `device` must be a live device of `plugin`.
pub(crate) unsafe fn read_memory_stats(plugin: &Plugin, device: *mut sys::PJRT_Device) -> Result<Option<MemoryStats>> {
    let mut args = sys::PJRT_Device_MemoryStats_Args { device, ..Default::default() };
    // SAFETY: the caller guarantees the device, and the function only fills in numbers.
    match unsafe { call!(plugin, PJRT_Device_MemoryStats, args) } {
        Ok(()) => {}
        Err(PjrtError::Status { code: Code::Unimplemented, .. } | PjrtError::NoFunction { .. }) => return Ok(None),
        Err(error) => return Err(error),
    }
    let bytes = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(Some(MemoryStats {
        in_use: bytes(args.bytes_in_use),
        peak_in_use: args.peak_bytes_in_use_is_set.then(|| bytes(args.peak_bytes_in_use)),
        limit: args.bytes_limit_is_set.then(|| bytes(args.bytes_limit)),
        largest_free_block: args.largest_free_block_bytes_is_set.then(|| bytes(args.largest_free_block_bytes)),
    }))
}
