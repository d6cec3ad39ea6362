//! The few functions of NVIDIA's driver that start a kernel.

use crate::GpuFacts;
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

type CuResult = c_int;

/// A function of the driver, valid on all devices of the process.
#[derive(Clone, Copy)]
pub struct CompiledKernel(*mut c_void);

// SAFETY: the driver allows handles of kernels to be used from any thread.
unsafe impl Send for CompiledKernel {}
// SAFETY: as above.
unsafe impl Sync for CompiledKernel {}

/// How many blocks and threads a kernel runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks along x, y and z.
    pub blocks: [u32; 3],
    /// Threads of a block along x and y.
    pub threads: [u32; 2],
}

type LoadLibrary = unsafe extern "C" fn(
    *mut *mut c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    c_uint,
    *const c_void,
    *const c_void,
    c_uint,
) -> CuResult;
type LaunchKernel = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    *const *const c_void,
    *const c_void,
) -> CuResult;

/// The driver's functions.
pub struct Driver {
    get_error: unsafe extern "C" fn(CuResult, *mut *const c_char) -> CuResult,
    count_devices: unsafe extern "C" fn(*mut c_int) -> CuResult,
    get_attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> CuResult,
    load_library: LoadLibrary,
    get_kernel: unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> CuResult,
    set_attribute: unsafe extern "C" fn(c_int, c_int, *mut c_void, c_int) -> CuResult,
    launch: LaunchKernel,
}

/// The driver of this machine, loaded once.
pub fn driver() -> Result<&'static Driver, String> {
    static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
    DRIVER.get_or_init(Driver::load).as_ref().map_err(String::clone)
}

impl Driver {
    fn load() -> Result<Driver, String> {
        // SAFETY: loading runs the initializers of NVIDIA's driver, which the plugin has loaded before.
        let library =
            unsafe { Library::new("libcuda.so.1") }.map_err(|_| "NVIDIA's driver is not there".to_string())?;
        // The functions must outlive everything.
        let library: &'static Library = Box::leak(Box::new(library));
        let old = |_| "NVIDIA's driver is older than CUDA 12".to_string();
        // SAFETY: the types are those of the driver's header.
        unsafe {
            Ok(Driver {
                get_error: *library.get(b"cuGetErrorString\0").map_err(old)?,
                count_devices: *library.get(b"cuDeviceGetCount\0").map_err(old)?,
                get_attribute: *library.get(b"cuDeviceGetAttribute\0").map_err(old)?,
                load_library: *library.get(b"cuLibraryLoadData\0").map_err(old)?,
                get_kernel: *library.get(b"cuLibraryGetKernel\0").map_err(old)?,
                set_attribute: *library.get(b"cuKernelSetAttribute\0").map_err(old)?,
                launch: *library.get(b"cuLaunchKernel\0").map_err(old)?,
            })
        }
    }

    fn check(&self, what: &str, result: CuResult) -> Result<(), String> {
        if result == 0 {
            return Ok(());
        }
        let mut words = null();
        // SAFETY: the driver returns text of its own that lives as long as the process, or leaves the null.
        let words = unsafe {
            (self.get_error)(result, &mut words);
            if words.is_null() { "an unknown error".into() } else { CStr::from_ptr(words).to_string_lossy() }
        };
        Err(format!("{what}: {words}"))
    }

    /// The architecture of the first device, such as 90 for Hopper.
    pub fn architecture(&self) -> Result<i32, String> {
        const MAJOR: c_int = 75;
        const MINOR: c_int = 76;
        Ok(self.attribute(MAJOR)? * 10 + self.attribute(MINOR)?)
    }

    /// The facts of the first device, read once.
    pub fn facts(&self) -> Result<GpuFacts, String> {
        const MULTIPROCESSORS: c_int = 16;
        const SHARED_MEMORY: c_int = 97;
        static FACTS: OnceLock<GpuFacts> = OnceLock::new();
        if let Some(&facts) = FACTS.get() {
            return Ok(facts);
        }
        let [multiprocessors, shared_memory] =
            [self.attribute(MULTIPROCESSORS)?, self.attribute(SHARED_MEMORY)?].map(|value| value.max(0) as usize);
        Ok(*FACTS.get_or_init(|| GpuFacts { multiprocessors, shared_memory }))
    }

    /// An attribute of the first device.
    fn attribute(&self, attribute: c_int) -> Result<c_int, String> {
        let mut value = 0;
        // SAFETY: the driver fills in the number, or returns an error.
        self.check("reading a fact of the GPU", unsafe { (self.get_attribute)(&mut value, attribute, 0) })?;
        Ok(value)
    }

    /// The kernel called `entry` of a compiled program, which may request that many bytes of shared memory when it starts.
    pub fn kernel(&self, program: &[u8], entry: &CStr, shared: u32) -> Result<CompiledKernel, String> {
        const SHARED_MEMORY: c_int = 8;
        let (mut library, mut kernel) = (null_mut(), null_mut());
        // SAFETY: the driver copies the program, and the library is never unloaded, so its kernels stay valid.
        unsafe {
            let loaded =
                (self.load_library)(&mut library, program.as_ptr().cast(), null(), null(), 0, null(), null(), 0);
            self.check("loading a kernel", loaded)?;
            self.check("finding a kernel", (self.get_kernel)(&mut kernel, library, entry.as_ptr()))?;
            let mut devices = 0;
            self.check("counting GPUs", (self.count_devices)(&mut devices))?;
            for device in 0..devices {
                let allowed = (self.set_attribute)(SHARED_MEMORY, shared as c_int, kernel, device);
                self.check("a kernel's shared memory", allowed)?;
            }
        }
        Ok(CompiledKernel(kernel))
    }

    /// Puts a kernel with that many bytes of shared memory on the stream.
    ///
    /// # Safety
    /// Every parameter must point to a value of the type that the kernel expects at its position; memory it points to on the
    /// device must be alive until the stream has passed the kernel.
    pub unsafe fn launch(
        &self,
        kernel: CompiledKernel,
        grid: Grid,
        shared: u32,
        stream: *mut c_void,
        parameters: &[*const c_void],
    ) -> Result<(), String> {
        let ([bx, by, bz], [tx, ty]) = (grid.blocks, grid.threads);
        let parameters = parameters.as_ptr();
        // SAFETY: passed on from the caller; the driver reads the parameters before it returns.
        let launched = unsafe { (self.launch)(kernel.0, bx, by, bz, tx, ty, 1, shared, stream, parameters, null()) };
        self.check("starting a kernel", launched)
    }
}
