//! Whether AMX tiles may be used: the chip must have them and the kernel must grant the large register state.

use std::arch::x86_64::__cpuid_count;

/// Products of bf16 numbers: bit 22 of EDX in leaf 7.
pub(super) const BF16: u32 = 1 << 22;
/// Products of 8-bit numbers: bit 25.
pub(super) const INT8: u32 = 1 << 25;

/// Requests the tile registers from the operating system; true when it and the chip, which must have the products, agree.
pub(super) fn request(products: u32) -> bool {
    chip_has(products) && kernel_grants_tiles()
}

fn chip_has(products: u32) -> bool {
    // Bit 24 is AMX-TILE.
    let wanted = products | 1 << 24;
    __cpuid_count(7, 0).edx & wanted == wanted
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
