//! A client: the devices that this process has taken, and everything that lives on them.

use crate::device::{DeviceDescription, MemoryStats, read_memory_stats};
use crate::error::{PjrtError, Result};
use crate::key_values::KeyValues;
use crate::named_value::{NamedValues, slice, text, to_c};
use crate::plugin::{Plugin, call};
use crate::sys;
use crate::topology::version_of;
use octant_cluster::Store;
use std::sync::Arc;

/// A connection to a plugin's devices. Clones share it; it ends when the last clone, device, buffer and executable is
/// dropped.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<ClientInner>,
}

pub(crate) struct ClientInner {
    pub(crate) plugin: Plugin,
    pub(crate) client: *mut sys::PJRT_Client,
    /// What the plugin's callbacks look into, as long as it may call them.
    _key_values: Option<KeyValues>,
}

// SAFETY: the interface allows a client to be used from any thread.
unsafe impl Send for ClientInner {}
// SAFETY: as above.
unsafe impl Sync for ClientInner {}

impl Drop for ClientInner {
    fn drop(&mut self) {
        let mut args = sys::PJRT_Client_Destroy_Args { client: self.client, ..Default::default() };
        // SAFETY: everything that belongs to the client holds an `Arc` of it, so nothing is left that could use it.
        let _ = unsafe { call!(self.plugin, PJRT_Client_Destroy, args) };
    }
}

impl Client {
    /// Takes the plugin's devices. What `options` there are depends on the plugin; the CUDA plugin knows `allocator`,
    /// `memory_fraction`, `preallocate` and `visible_devices`, for instance.
    pub fn new(plugin: &Plugin, options: &NamedValues) -> Result<Client> {
        Client::create(plugin, options, None)
    }

    /// The same as one of several processes, which find each other through a store that all of them share. The plugin's options
    /// say which process this is: `node_id` and `num_nodes` of the CUDA plugin. Blocks until all have come.
    pub fn joined(plugin: &Plugin, options: &NamedValues, store: Arc<dyn Store>) -> Result<Client> {
        Client::create(plugin, options, Some(KeyValues::new(store)))
    }

    fn create(plugin: &Plugin, options: &NamedValues, key_values: Option<KeyValues>) -> Result<Client> {
        let options = to_c(options);
        let mut args = sys::PJRT_Client_Create_Args {
            create_options: options.as_ptr(),
            num_options: options.len(),
            ..Default::default()
        };
        if let Some(key_values) = &key_values {
            key_values.register(&mut args);
        }
        // SAFETY: the options outlive the call, which copies them; the callbacks may be null in a single process, and are valid
        // as long as the client otherwise.
        let created = unsafe { call!(plugin, PJRT_Client_Create, args) };
        if let Err(error) = created {
            // A thread that the plugin began may still wait for a key.
            std::mem::forget(key_values);
            return Err(error);
        }
        if args.client.is_null() {
            return Err(PjrtError::Broken("PJRT_Client_Create succeeded without a client".into()));
        }
        let inner = ClientInner { plugin: plugin.clone(), client: args.client, _key_values: key_values };
        Ok(Client { inner: Arc::new(inner) })
    }

    /// The plugin behind this client.
    pub fn plugin(&self) -> &Plugin {
        &self.inner.plugin
    }

    /// The platform: `tpu`, `cuda`, …
    pub fn platform_name(&self) -> Result<String> {
        let mut args = sys::PJRT_Client_PlatformName_Args { client: self.inner.client, ..Default::default() };
        // SAFETY: the client is alive, and the text that it owns is copied.
        unsafe {
            call!(self.inner.plugin, PJRT_Client_PlatformName, args)?;
            Ok(text(args.platform_name, args.platform_name_size))
        }
    }

    /// The version of the platform's software, in its own words.
    pub fn platform_version(&self) -> Result<String> {
        let mut args = sys::PJRT_Client_PlatformVersion_Args { client: self.inner.client, ..Default::default() };
        // SAFETY: the client is alive, and the text that it owns is copied.
        unsafe {
            call!(self.inner.plugin, PJRT_Client_PlatformVersion, args)?;
            Ok(text(args.platform_version, args.platform_version_size))
        }
    }

    /// The version of the compiler for this client's devices, in the words that a
    /// [`Topology`](crate::Topology::platform_version) of such a board elsewhere would use.
    pub fn compiler_version(&self) -> Result<String> {
        let mut args = sys::PJRT_Client_TopologyDescription_Args { client: self.inner.client, ..Default::default() };
        // SAFETY: the client is alive, and so is the topology, which belongs to it.
        let version = unsafe {
            call!(self.inner.plugin, PJRT_Client_TopologyDescription, args)
                .and_then(|()| version_of(&self.inner.plugin, args.topology))
        };
        // Plugins without topologies cannot compile for boards elsewhere either, so any words will do.
        version.or_else(|_| self.platform_version())
    }

    /// The number of this process among those of the client's devices; the first one where the plugin knows no others.
    pub fn process(&self) -> Result<i32> {
        let mut args = sys::PJRT_Client_ProcessIndex_Args { client: self.inner.client, ..Default::default() };
        // SAFETY: the client is alive.
        match unsafe { call!(self.inner.plugin, PJRT_Client_ProcessIndex, args) } {
            Ok(()) => Ok(args.process_index),
            Err(PjrtError::NoFunction { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The devices of all processes; programs may be compiled for all of them.
    pub fn all_devices(&self) -> Result<Vec<DeviceDescription>> {
        let mut args = sys::PJRT_Client_Devices_Args { client: self.inner.client, ..Default::default() };
        // SAFETY: the client is alive, and so is its list of devices.
        let devices = unsafe {
            match call!(self.inner.plugin, PJRT_Client_Devices, args) {
                Ok(()) => slice(args.devices, args.num_devices),
                Err(PjrtError::NoFunction { .. }) => {
                    return Ok(self.devices()?.iter().map(|device| device.description().clone()).collect());
                }
                Err(error) => return Err(error),
            }
        };
        let described =
            devices.iter().map(|&device| PjrtDevice::read(self.clone(), device)).collect::<Result<Vec<_>>>()?;
        Ok(described.iter().map(|device| device.description().clone()).collect())
    }

    /// The devices that this process can use.
    pub fn devices(&self) -> Result<Vec<PjrtDevice>> {
        let mut args = sys::PJRT_Client_AddressableDevices_Args { client: self.inner.client, ..Default::default() };
        // SAFETY: the client is alive, and so is its list of devices.
        let devices = unsafe {
            call!(self.inner.plugin, PJRT_Client_AddressableDevices, args)?;
            slice(args.addressable_devices, args.num_addressable_devices)
        };
        devices.iter().map(|&device| PjrtDevice::read(self.clone(), device)).collect()
    }
}

/// A device of a client.
#[derive(Clone)]
pub struct PjrtDevice {
    pub(crate) client: Client,
    pub(crate) device: *mut sys::PJRT_Device,
    description: Arc<DeviceDescription>,
}

// SAFETY: the interface allows devices to be used from any thread; they live as long as their client.
unsafe impl Send for PjrtDevice {}
// SAFETY: as above.
unsafe impl Sync for PjrtDevice {}

impl PjrtDevice {
    fn read(client: Client, device: *mut sys::PJRT_Device) -> Result<PjrtDevice> {
        let plugin = client.plugin();
        let mut args = sys::PJRT_Device_GetDescription_Args { device, ..Default::default() };
        // SAFETY: the device belongs to the living client, and the description to the device.
        let description = unsafe {
            call!(plugin, PJRT_Device_GetDescription, args)?;
            DeviceDescription::read(plugin, args.device_description)?
        };
        Ok(PjrtDevice { client, device, description: Arc::new(description) })
    }

    /// What the device is.
    pub fn description(&self) -> &DeviceDescription {
        &self.description
    }

    /// The client that it belongs to.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The number that the platform's own tools use (the CUDA ordinal, for instance); -1 where there is none.
    pub fn local_hardware_id(&self) -> Result<i32> {
        let mut args = sys::PJRT_Device_LocalHardwareId_Args { device: self.device, ..Default::default() };
        // SAFETY: the device is alive.
        unsafe { call!(self.client.inner.plugin, PJRT_Device_LocalHardwareId, args)? };
        Ok(args.local_hardware_id)
    }

    /// How much of its memory is used; `None` on platforms that do not report it.
    pub fn memory_stats(&self) -> Result<Option<MemoryStats>> {
        // SAFETY: the device is alive.
        unsafe { read_memory_stats(&self.client.inner.plugin, self.device) }
    }
}

impl std::fmt::Debug for PjrtDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Device({}, {})", self.description.id, self.description.kind)
    }
}
