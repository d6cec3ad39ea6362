//! The network of a recipe, and the images that it takes.

use crate::error::refuse;
use crate::{Recipe, Result};
use octant_nn::Adapters;
use octant_train::options::nearest;
use octant_zoo::{Adapted, Model, ModelEntry, ModelTask};

/// The network of a recipe with a head that fits the data.
pub fn model(recipe: &Recipe, outputs: usize) -> Result<(Box<dyn Model>, &'static ModelEntry)> {
    let entry = octant_zoo::find(&recipe.model)?;
    let mut model = (entry.build)(recipe.classes.unwrap_or(outputs));
    if recipe.dropout.is_some() || recipe.stochastic_depth.is_some() {
        model.set_drop(recipe.dropout.unwrap_or(0.0), recipe.stochastic_depth.unwrap_or(0.0));
    }
    if let Some(&[count, columns]) = recipe.keypoints.first_chunk::<2>() {
        model.set_keypoints(count, columns);
    }
    let Some(options) = &recipe.step.adapters else { return Ok((model, entry)) };
    refuse_unmatched_targets(entry, &options.adapters())?;
    Ok((Box::new(Adapted::new(model, options.adapters())), entry))
}

/// Refuses adapters for layers that the network does not have.
fn refuse_unmatched_targets(entry: &ModelEntry, adapters: &Adapters) -> Result<()> {
    let every = Adapted::new(
        (entry.build)(entry.classes),
        Adapters { targets: vec![Adapters::ALL.into()], ..adapters.clone() },
    );
    let (specs, _) = octant_zoo::describe(&every, entry.preprocessing.input)?;
    let linear: Vec<&str> = specs.iter().filter_map(|spec| spec.path.strip_suffix(Adapters::FACTORS[0])).collect();
    if linear.is_empty() {
        refuse!("{} has no linear layers but its head, so `adapters` have nothing to adapt; remove them", entry.name);
    }
    let is_unknown = |target: &&String| {
        let alone = Adapters { targets: vec![target.to_string()], ..adapters.clone() };
        !linear.iter().any(|layer| alone.includes(layer))
    };
    let Some(target) = adapters.targets.iter().find(is_unknown) else { return Ok(()) };
    let mut names: Vec<&str> = linear.iter().map(|layer| layer.rsplit('.').next().unwrap_or(layer)).collect();
    names.sort_unstable();
    names.dedup();
    let hint = match nearest(target, names.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("there are {}, or \"{}\" for every one", names.join(", "), Adapters::ALL),
    };
    refuse!("`adapters.targets` names no linear layer of {}: \"{target}\"; {hint}", entry.name)
}

/// Refuses images that the network cannot take.
pub(super) fn check_images(recipe: &Recipe, entry: &ModelEntry, model: &dyn Model, image: [usize; 3]) -> Result<()> {
    let [height, width, channels] = image;
    let multiple = model.multiple();
    let fits = |side: usize| side != 0 && side.is_multiple_of(multiple);
    if let Some(side) = [height, width].into_iter().find(|&side| !fits(side)) {
        let above = side.div_ceil(multiple).max(1) * multiple;
        let below = Some(above - multiple).filter(|&below| below > 0);
        let below = below.map(|below| format!("`image_size = {below}` or ")).unwrap_or_default();
        refuse!(
            "{} takes images whose sides are multiples of {multiple}, not {height}×{width}; {below}`image_size = {above}` \
             would do",
            entry.name
        );
    }
    refuse_too_small(entry, model, image)?;
    if entry.task != ModelTask::Translate {
        return Ok(());
    }
    let wanted = entry.preprocessing.input[2];
    if wanted != channels {
        refuse!("{} takes images of {wanted} channel(s), the data has {channels}; choose another model", entry.name);
    }
    let shrinks = recipe.degrade.as_ref().and_then(|degrade| degrade.shrink).unwrap_or(1);
    let factor = model.enlarges();
    if shrinks != factor {
        refuse!("{} enlarges images by {factor}; set `degrade.shrink` to it (it is {shrinks})", entry.name);
    }
    Ok(())
}

/// Refuses images of which nothing is left after the network's strides: it would train on empty feature maps.
fn refuse_too_small(entry: &ModelEntry, model: &dyn Model, [height, width, channels]: [usize; 3]) -> Result<()> {
    const NEVER_TOO_SMALL: usize = 128;
    if height.min(width) >= NEVER_TOO_SMALL {
        return Ok(());
    }
    let fits = |[height, width]: [usize; 2]| octant_zoo::leaves_pixels(model, [height, width, channels]);
    if fits([height, width]) {
        return Ok(());
    }
    let (multiple, side) = (model.multiple(), height.max(width));
    let larger = (side.div_ceil(multiple)..).map(|count| count * multiple).find(|&side| fits([side; 2]));
    let larger = larger.unwrap_or(NEVER_TOO_SMALL);
    refuse!("images of {height}×{width} are too small for {}; `image_size = {larger}` would do", entry.name)
}

#[cfg(test)]
mod tests {
    use crate::{Recipe, check, set_text, table, task};

    /// Why a task for images of that side is refused; empty if it is not.
    fn sentence(recipe: &Recipe, side: usize) -> String {
        let built = task(recipe, 1, [side, side, 3], false);
        built.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn sizes_that_cells_do_not_divide_were_refused_by_a_concatenation() {
        let recipe = check(table("detect").unwrap()).unwrap();
        let refused = "yolo11n takes images whose sides are multiples of 32, not 100×100; `image_size = 96` or `image_size = 128` \
                       would do";
        assert_eq!(sentence(&recipe, 100), refused);
        assert_eq!(sentence(&recipe, 96), "");
    }

    /// Every network with patches, windows or scales that it joins again, and what it says of a size that they do not divide.
    #[test]
    fn sizes_that_patches_do_not_divide_were_trained_on_nothing() {
        for (recipe, model, side, sentence_wanted) in [
            ("classify", "vit_tiny_patch16_224", 7, "multiples of 16, not 7×7; `image_size = 16` would do"),
            ("classify", "vit_small_patch16_224", 40, "`image_size = 32` or `image_size = 48` would do"),
            ("classify", "vit_small_patch14_dinov2", 224 + 1, "`image_size = 224` or `image_size = 238` would do"),
            ("classify", "swin_t", 30, "`image_size = 28` or `image_size = 32` would do"),
            ("classify", "convnext_tiny", 20, "images of 20×20 are too small for convnext_tiny; `image_size = 32`"),
            ("segment", "unet", 100, "`image_size = 96` or `image_size = 112` would do"),
            ("segment", "mshnet", 100, "`image_size = 96` or `image_size = 112` would do"),
            ("pix2pix", "unet_256", 200, "`image_size = 256` would do"),
        ] {
            let mut table = table(recipe).unwrap();
            set_text(&mut table, &format!("model=\"{model}\"")).unwrap();
            let recipe = check(table).unwrap();
            let built = task(&recipe, 3, [side, side, 3], false);
            let refused = built.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(refused.contains(sentence_wanted), "{model}: {refused:?}");
        }
    }
}
