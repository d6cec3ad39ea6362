//! From outlines to a mask per image: index PNG files in a palette, whose values are class numbers, and a list of the classes' names.

use super::convert::{Converted, copy, create, file_names, parts};
use crate::decode::DecodeOptions;
use crate::readers::{MaskRules, OutlinedMasks, open_outlined_masks, write_names};
use crate::{DataError, Dataset, LabelKind, Target, write_png_indexed};
use std::collections::HashSet;
use std::path::Path;

/// Writes `images/`, `masks/` and `classes.txt`, with a folder per part where there are several. Masks are what `segment` draws from the
/// same outlines: 0 is the background, and 255 what is ignored. Where a single class is marked, it alone has a name.
pub(super) fn convert_to_masks(source: &Path, out: &Path) -> Result<Converted, DataError> {
    let by = |rules: &MaskRules| {
        let open = |part| open_outlined_masks(source, part, rules, DecodeOptions::default());
        parts(source, LabelKind::Outlines, open, |part| part.outlines().images())
    };
    let mut sets = by(&MaskRules::default())?;
    let (_, train) = &sets[0];
    for (name, part) in &sets[1..] {
        if part.class_names() != train.class_names() {
            let [of_train, of_part] = [train, part].map(|part| part.class_names().join(", "));
            return Err(DataError::request(format!(
                "the parts number their classes differently: {of_train} in training, {of_part} in {name}; give all one list"
            )));
        }
    }
    if sets.iter().any(|(_, part)| part.is_marked() != train.is_marked()) {
        // Groups in one part are ignored, so the masks of all number their class.
        sets = by(&MaskRules { classes: Some(2), ..MaskRules::default() })?;
    }
    let (_, train) = &sets[0];
    let names = train.class_names();
    write_names(if train.is_marked() { &names[1..] } else { names }, out)?;
    let mut result = Converted { opens: out.to_path_buf(), ..Converted::default() };
    let mut taken = HashSet::new();
    for (name, part) in &sets {
        let folder = |kind: &str| if sets.len() > 1 { out.join(kind).join(name) } else { out.join(kind) };
        write(part, [&folder("images"), &folder("masks")], &mut taken)?;
        result.images += part.len();
        result.boxes += part.outlines().images().iter().map(|image| image.boxes.len()).sum::<usize>();
        result.dropped.extend(part.left_out());
    }
    result.dropped.sort();
    result.dropped.dedup();
    Ok(result)
}

/// Every image of a part, and its mask under the same name.
fn write(part: &OutlinedMasks, [images, masks]: [&Path; 2], taken: &mut HashSet<String>) -> Result<(), DataError> {
    create(images)?;
    create(masks)?;
    for (index, image) in part.outlines().images().iter().enumerate() {
        let Target::Mask(mask) = part.get(index)?.target else { continue };
        let [stem, ending] = file_names(&image.path, taken);
        copy(image, &images.join(format!("{stem}.{ending}")))?;
        write_png_indexed(masks.join(format!("{stem}.png")), &mask.labels)?;
    }
    Ok(())
}
