//! Whether AMX tiles may be used: the chip must have them and the kernel must grant the large register state.

use std::arch::x86_64::__cpuid_count;

/// Requests the tile registers from the operating system (once per process); true when chip and kernel both agree.
pub(super) fn request() -> bool {
    chip_has_bf16_tiles() && kernel_grants_tiles()
}

fn chip_has_bf16_tiles() -> bool {
    // Leaf 7: EDX bit 22 is AMX-BF16, bit 24 AMX-TILE.
    const TILES: u32 = 1 << 22 | 1 << 24;
    let features = __cpuid_count(7, 0).edx;
    features & TILES == TILES
}

#[cfg(target_os = "linux")]
fn kernel_grants_tiles() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call only requests a permission; an old kernel returns an error.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn kernel_grants_tiles() -> bool {
    false
}
