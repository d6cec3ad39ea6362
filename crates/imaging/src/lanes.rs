//! Pixels as four bytes, of which the last is not used: a pixel is then one word, which is what vectors want. Images have
//! three bytes per pixel; rows are converted while they are in the cache.

/// A pixel: red, green, blue, zero.
pub type Lanes = [u8; 4];

/// Pixels moved at a time.
const GROUP: usize = 4;

/// Four lanes per pixel to three bytes.
pub fn pack(lanes: &[Lanes], row: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    let done = x86::pack(lanes, row);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    for (lanes, pixel) in lanes.iter().zip(row.as_chunks_mut::<3>().0).skip(done) {
        *pixel = [lanes[0], lanes[1], lanes[2]];
    }
}

/// Three bytes per pixel to four lanes.
pub fn unpack(row: &[u8], lanes: &mut [Lanes]) {
    #[cfg(target_arch = "x86_64")]
    let done = x86::unpack(row, lanes);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    for (lanes, pixel) in lanes.iter_mut().zip(row.as_chunks::<3>().0).skip(done) {
        *lanes = [pixel[0], pixel[1], pixel[2], 0];
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{GROUP, Lanes};
    use std::arch::x86_64::*;

    /// Groups after which at least two more pixels follow, so that loads and stores of 16 bytes stay inside of a row.
    fn groups(lanes: usize, bytes: usize) -> usize {
        let pixels = lanes.min(bytes / 3);
        if std::is_x86_feature_detected!("ssse3") { pixels.saturating_sub(2) / GROUP } else { 0 }
    }

    /// How many pixels were done.
    pub(super) fn pack(lanes: &[Lanes], row: &mut [u8]) -> usize {
        let groups = groups(lanes.len(), row.len());
        // SAFETY: the processor has SSSE3, or there are no groups; both slices have two more pixels than the groups.
        unsafe { pack_groups(&lanes[..groups * GROUP], row) };
        groups * GROUP
    }

    /// # Safety
    /// `row` must have at least four bytes more than three per lane of `lanes`.
    #[target_feature(enable = "ssse3")]
    unsafe fn pack_groups(lanes: &[Lanes], row: &mut [u8]) {
        let order = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
        for (group, lanes) in lanes.as_chunks::<GROUP>().0.iter().enumerate() {
            // SAFETY: a group has 16 bytes, and 16 bytes of the row follow the start of each one; the next group or the
            // portable loop overwrites the last four.
            unsafe {
                let pixels = _mm_shuffle_epi8(_mm_loadu_si128(lanes.as_ptr().cast()), order);
                _mm_storeu_si128(row.as_mut_ptr().add(group * 12).cast(), pixels);
            }
        }
    }

    /// How many pixels were done.
    pub(super) fn unpack(row: &[u8], lanes: &mut [Lanes]) -> usize {
        let groups = groups(lanes.len(), row.len());
        // SAFETY: the processor has SSSE3, or there are no groups; both slices have two more pixels than the groups.
        unsafe { unpack_groups(row, &mut lanes[..groups * GROUP]) };
        groups * GROUP
    }

    /// # Safety
    /// `row` must have at least four bytes more than three per lane of `lanes`.
    #[target_feature(enable = "ssse3")]
    unsafe fn unpack_groups(row: &[u8], lanes: &mut [Lanes]) {
        let order = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
        for (group, lanes) in lanes.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            // SAFETY: a group has 16 bytes, and 16 bytes of the row follow the start of each one.
            unsafe {
                let pixels = _mm_loadu_si128(row.as_ptr().add(group * 12).cast());
                _mm_storeu_si128(lanes.as_mut_ptr().cast(), _mm_shuffle_epi8(pixels, order));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_undoes_unpacking_at_every_length() {
        for pixels in 0..20 {
            let row =
                (0..3 * pixels as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 19) as u8).collect::<Vec<u8>>();
            let (mut lanes, mut back) = (vec![[7; 4]; pixels], vec![0; row.len()]);
            unpack(&row, &mut lanes);
            assert!(
                lanes.iter().zip(row.as_chunks::<3>().0).all(|(lanes, pixel)| lanes[..3] == *pixel && lanes[3] == 0)
            );
            pack(&lanes, &mut back);
            assert_eq!(back, row);
        }
    }
}
