//! One color per class number: the color map of the PASCAL VOC masks, which most tools draw masks with.

/// The color of a class: black for 0, and colors far from each other for the numbers that follow. 255, which VOC paints around
/// objects, is a pale yellow.
///
/// ```
/// use octant_imaging::palette::class_color;
/// assert_eq!([0, 1, 15].map(class_color), [[0, 0, 0], [128, 0, 0], [192, 128, 128]]);
/// assert_eq!(class_color(255), [224, 224, 192]);
/// ```
pub fn class_color(class: u8) -> [u8; 3] {
    // Three bits of the number at a time go to red, green and blue, from their highest bits down.
    [0, 1, 2].map(|channel| {
        (0..3).fold(0, |value, step| {
            let bit = (u32::from(class) >> (3 * step + channel)) & 1;
            value | (bit as u8) << (7 - step)
        })
    })
}
