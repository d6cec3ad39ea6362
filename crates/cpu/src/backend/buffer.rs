//! Tensors of the engine: host memory that may still be being computed.

use octant_runtime::{DeviceBuffer, HostTensor, Result, RuntimeError, Shape};
use octant_tensor::{AlignedBytes, Bytes};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A tensor in host memory, there now or later.
#[derive(Clone)]
pub(crate) struct CpuBuffer {
    shape: Shape,
    slot: Arc<Slot>,
}

struct Slot {
    /// No other buffer ever has it. What a slot holds does not change while it is there, so the same number means the same
    /// content.
    identity: u64,
    state: Mutex<State>,
    changed: Condvar,
}

enum State {
    Pending,
    Ready(Storage),
    Failed(RuntimeError),
    Donated,
}

/// Memory that several may read.
#[derive(Clone)]
pub(crate) enum Storage {
    /// Allocated by the engine; can be donated when there is no other handle.
    Owned(Arc<AlignedBytes>),
    /// Came from outside, where someone may still read it.
    Shared(Bytes),
}

impl Storage {
    pub fn pointer(&self) -> *mut u8 {
        match self {
            Storage::Owned(bytes) => bytes.as_ptr().cast_mut(),
            Storage::Shared(bytes) => bytes.as_ptr().cast_mut(),
        }
    }

    /// Memory with the same content that may be written: this one if there is no other handle, a copy otherwise.
    pub fn into_exclusive(self) -> Arc<AlignedBytes> {
        match self {
            Storage::Owned(mut bytes) => match Arc::get_mut(&mut bytes) {
                Some(_) => bytes,
                None => Arc::new(AlignedBytes::copy_of(&bytes)),
            },
            Storage::Shared(bytes) => bytes.into_block(),
        }
    }
}

/// What a queued run reads: memory that is there already, or a buffer that an earlier run will make.
pub(crate) enum Argument {
    /// Held from the moment of the call, so that a later call that takes the buffer over does not take it from this run.
    Ready { identity: u64, storage: Storage },
    /// To be waited for.
    Pending(CpuBuffer),
}

impl Argument {
    /// A number that identifies the content.
    pub fn identity(&self) -> u64 {
        match self {
            Argument::Ready { identity, .. } => *identity,
            Argument::Pending(buffer) => buffer.identity(),
        }
    }

    /// Waits for the memory.
    pub fn storage(&self) -> Result<Storage> {
        match self {
            Argument::Ready { storage, .. } => Ok(storage.clone()),
            Argument::Pending(buffer) => buffer.storage(),
        }
    }

    /// Waits for the memory of a donated buffer and takes it out.
    pub fn take(&self) -> Result<Storage> {
        match self {
            Argument::Ready { storage, .. } => Ok(storage.clone()),
            Argument::Pending(buffer) => buffer.take(),
        }
    }
}

/// Keeps engine memory alive for a host tensor that reads it.
struct Held(Arc<AlignedBytes>);

impl Deref for Held {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl CpuBuffer {
    /// A tensor that is already there; its memory is shared, not copied.
    pub fn ready(tensor: &HostTensor) -> CpuBuffer {
        let state = State::Ready(Storage::Shared(tensor.bytes().clone()));
        CpuBuffer::with_state(tensor.shape().clone(), state)
    }

    /// A tensor that a queued run will make.
    pub fn pending(shape: Shape) -> CpuBuffer {
        CpuBuffer::with_state(shape, State::Pending)
    }

    fn with_state(shape: Shape, state: State) -> CpuBuffer {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let identity = NEXT.fetch_add(1, Ordering::Relaxed);
        CpuBuffer { shape, slot: Arc::new(Slot { identity, state: Mutex::new(state), changed: Condvar::new() }) }
    }

    /// A number that identifies this buffer's content.
    pub fn identity(&self) -> u64 {
        self.slot.identity
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held cannot leave the state half-changed: every change is one assignment.
        self.slot.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        *self.lock() = state;
        self.slot.changed.notify_all();
    }

    pub fn fulfil(&self, storage: Storage) {
        self.set(State::Ready(storage));
    }

    pub fn fail(&self, error: RuntimeError) {
        self.set(State::Failed(error));
    }

    /// This buffer as something that a run reads.
    pub fn to_read(&self) -> Result<Argument> {
        match &*self.lock() {
            State::Ready(storage) => Ok(Argument::Ready { identity: self.slot.identity, storage: storage.clone() }),
            State::Donated => Err(RuntimeError::Donated),
            State::Pending | State::Failed(_) => Ok(Argument::Pending(self.clone())),
        }
    }

    /// Takes what this buffer holds, or will hold, away from its other handles.
    pub fn donate(&self) -> Result<CpuBuffer> {
        let mut state = self.lock();
        if matches!(*state, State::Donated) {
            return Err(RuntimeError::Donated);
        }
        if matches!(*state, State::Pending) {
            // The run that will make it is queued before the run that takes it, so the other handles may keep it: the
            // taker copies if someone still reads then.
            drop(state);
            return Ok(self.clone());
        }
        let taken = std::mem::replace(&mut *state, State::Donated);
        drop(state);
        Ok(CpuBuffer::with_state(self.shape.clone(), taken))
    }

    /// Waits for the memory and takes it out of the buffer.
    pub fn take(&self) -> Result<Storage> {
        let mut state = self.wait_for_change();
        match std::mem::replace(&mut *state, State::Donated) {
            State::Ready(storage) => Ok(storage),
            State::Failed(error) => {
                *state = State::Failed(error.clone());
                Err(error)
            }
            State::Donated | State::Pending => Err(RuntimeError::Donated),
        }
    }

    /// Waits for the memory.
    pub fn storage(&self) -> Result<Storage> {
        match &*self.wait_for_change() {
            State::Ready(storage) => Ok(storage.clone()),
            State::Failed(error) => Err(error.clone()),
            State::Donated | State::Pending => Err(RuntimeError::Donated),
        }
    }

    fn wait_for_change(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while matches!(*state, State::Pending) {
            state = self.slot.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

impl DeviceBuffer for CpuBuffer {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn to_host(&self) -> Result<HostTensor> {
        let bytes = match self.storage()? {
            Storage::Owned(bytes) => Bytes::new(Held(bytes)),
            Storage::Shared(bytes) => bytes,
        };
        HostTensor::from_bytes(self.shape.clone(), bytes).map_err(|error| RuntimeError::Device(error.to_string()))
    }

    fn wait(&self) -> Result<()> {
        self.storage().map(drop)
    }
}
