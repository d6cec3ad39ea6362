//! Memory that holds machine code.

/// Code that can be called, and never changes.
pub(super) struct Pages {
    start: *mut std::ffi::c_void,
    #[cfg_attr(not(unix), expect(dead_code, reason = "there are no pages"))]
    bytes: usize,
}

// SAFETY: the pages are only read and run once they exist.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// None where systems are unknown to us.
    #[cfg(not(unix))]
    pub fn holding(_: &[u8]) -> Option<Pages> {
        None
    }

    /// Copies code into pages of its own; none where the system does not allow it.
    #[cfg(unix)]
    pub fn holding(code: &[u8]) -> Option<Pages> {
        let (readable, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory is asked for, wherever there is room.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), code.len(), readable, private, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let pages = Pages { start, bytes: code.len() };
        // SAFETY: the pages are new, at least as long as the code, and writable until they become executable.
        let executable = unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), start.cast(), code.len());
            libc::mprotect(start, code.len(), libc::PROT_READ | libc::PROT_EXEC) == 0
        };
        executable.then_some(pages)
    }

    /// The code's first byte.
    pub fn start(&self) -> *const u8 {
        self.start.cast::<u8>().cast_const()
    }
}

#[cfg(unix)]
impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: they were mapped with this length, and nothing runs in them any more.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}
