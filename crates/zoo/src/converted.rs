//! Files that were published under other names or in another form than the references have now.

use octant_archive::Archive;
use octant_nn::VariableSpec;
use octant_tensor::{HostTensor, Shape};
use std::collections::HashSet;

/// Parts of names: torchvision's before it renamed layers, and those of DINOv2's authors. Each rule holds for names that the
/// model lacks only.
const RENAMED: [(&str, &str); 5] = [
    (".mlp.linear_1.", ".mlp.0."),
    (".mlp.linear_2.", ".mlp.3."),
    (".mlp.w12.", ".mlp.fc1."),
    (".mlp.w3.", ".mlp.fc2."),
    ("register_tokens", "reg_token"),
];

/// Where networks for segmentation have the variables of the classifier that is their lower part.
const LOWER_PARTS: [&str; 3] = ["encoder.", "encoder.model.", "backbone."];

/// Tensors of such files that a network does without: what stood for hidden patches in training.
const UNUSED: [&str; 1] = ["mask_token"];

/// The archive under the names that the variables have now.
pub(crate) fn with_current_names(archive: &Archive, specs: &[VariableSpec]) -> Archive {
    let paths: HashSet<&str> = specs.iter().map(|spec| spec.path.as_str()).collect();
    let known = |name: &str| paths.contains(name);
    let mut archive = archive.clone();
    for (name, _) in &mut archive.tensors {
        if known(name) {
            continue;
        }
        let renamed = RENAMED.iter().find(|(old, _)| name.contains(old)).map(|(old, new)| name.replace(old, new));
        let current = renamed.into_iter().chain(in_lower_parts(name)).find(|renamed| known(renamed));
        if let Some(current) = current {
            *name = current;
        }
    }
    archive.tensors.retain(|(name, _)| known(name) || !UNUSED.contains(&name.as_str()));
    move_class_position(&mut archive, specs);
    archive
}

/// The names that a classifier's variable may have in a network over it. timm's networks without a head name modules beside each
/// other that lists hold otherwise.
fn in_lower_parts(name: &str) -> impl Iterator<Item = String> {
    let flat =
        ["stem.", "stages."].into_iter().find_map(|list| Some(list.replace('.', "_") + name.strip_prefix(list)?));
    let names = std::iter::once(name.to_string()).chain(flat);
    names.flat_map(|name| LOWER_PARTS.map(|part| format!("{part}{name}")))
}

/// DINOv2's authors keep a position for the class token beside the registers; here it is part of the token, as in timm.
fn move_class_position(archive: &mut Archive, specs: &[VariableSpec]) -> Option<()> {
    specs.iter().find(|spec| spec.path == "reg_token")?;
    let wanted = specs.iter().find(|spec| spec.path == "pos_embed")?.shape.dims().to_vec();
    let position = |name: &str| archive.tensors.iter().position(|(found, _)| found == name);
    let (class, positions) = (position("cls_token")?, position("pos_embed")?);
    let [1, tokens, width] = *archive.tensors[positions].1.dims() else { return None };
    if wanted != [1, tokens.checked_sub(1)?, width] || archive.tensors[class].1.dims() != [1, 1, width] {
        return None;
    }
    let all = archive.tensors[positions].1.to_f64s();
    let moved: Vec<f64> = archive.tensors[class].1.to_f64s().iter().zip(&all).map(|(a, b)| a + b).collect();
    let shape = |dims: &[usize], like: usize| Shape::new(archive.tensors[like].1.dtype(), dims);
    let new_class = HostTensor::from_f64s(shape(&[1, 1, width], class), &moved).ok()?;
    let new_positions = HostTensor::from_f64s(shape(&wanted, positions), &all[width..]).ok()?;
    (archive.tensors[class].1, archive.tensors[positions].1) = (new_class, new_positions);
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::weights::{export, load};
    use crate::{build, describe};
    use octant_archive::Archive;
    use octant_tensor::HostTensor;

    #[test]
    fn torchvisions_old_transformer_names_are_known() {
        let model = build("vit-test", None).unwrap();
        let (specs, _) = describe(&*model, [32, 32, 3]).unwrap();
        let values: Vec<HostTensor> = specs.iter().map(|spec| spec.initial(1)).collect();
        let mut tensors = export(&specs, &values, 0);
        for (name, _) in &mut tensors {
            *name = name.replace(".mlp.0.", ".mlp.linear_1.").replace(".mlp.3.", ".mlp.linear_2.");
        }
        let loaded = load(&Archive::from(tensors), &*model, &specs, 2);
        assert!(loaded.matching.is_exact(), "{}", loaded.matching);
        assert_eq!(loaded.values, values);
    }

    /// Every variable of the lower part, from the classifier's own file.
    #[test]
    fn encoders_take_the_weights_of_classifiers() {
        for (classifier, network, lower) in [
            ("resnet-tiny", "unet_resnet-tiny", "encoder."),
            ("resnet-tiny", "fpn_resnet-tiny", "encoder."),
            ("resnet-tiny", "deeplabv3plus_resnet-tiny", "encoder."),
            ("dinov2-test", "dinov2_linear-test", "encoder.model."),
            ("resnet-bottleneck-tiny", "fcn-tiny", "backbone."),
            ("timm_convnext_tiny", "fpn_convnext_tiny", "encoder.model."),
            ("mobilenetv3_small_100", "unet_mobilenetv3_small_100", "encoder.model."),
        ] {
            let described = |name: &str| {
                let entry = crate::find(name).unwrap();
                let model = build(name, None).unwrap();
                let (specs, _) = describe(&*model, entry.preprocessing.input).unwrap();
                (model, specs)
            };
            let (_, specs) = described(classifier);
            let values: Vec<HostTensor> = specs.iter().map(|spec| spec.initial(7)).collect();
            let file = Archive::from(export(&specs, &values, 0));
            let (model, specs) = described(network);
            let loaded = load(&file, &*model, &specs, 2);
            let missing: Vec<&str> = loaded.matching.missing.iter().map(|(name, _)| name.as_str()).collect();
            let below = specs.iter().filter(|spec| spec.path.starts_with(lower)).count();
            assert!(below > 10 && missing.iter().all(|name| !name.starts_with(lower)), "{network}: {missing:?}");
        }
    }

    #[test]
    fn files_of_dinov2s_authors_load() {
        let model = build("dinov2_gated-test", None).unwrap();
        let (specs, _) = describe(&*model, [32, 32, 3]).unwrap();
        let values: Vec<HostTensor> = specs.iter().map(|spec| spec.initial(1)).collect();
        let mut tensors = export(&specs, &values, 0);
        let position = |name: &str| specs.iter().position(|spec| spec.path == name).unwrap();
        let (class, positions) = (position("cls_token"), position("pos_embed"));
        // Their class token is what it is here less its position.
        let first: Vec<f64> = (0..24).map(|index| index as f64 * 0.125).collect();
        let theirs: Vec<f64> = first.iter().map(|value| -value).collect();
        tensors[class].1 = HostTensor::from_f64s(values[class].shape().clone(), &theirs).unwrap();
        let all: Vec<f64> = first.into_iter().chain(values[positions].to_f64s()).collect();
        let shape = values[positions].shape().with_dims(vec![1, 17, 24]);
        tensors[positions].1 = HostTensor::from_f64s(shape, &all).unwrap();
        for (name, _) in &mut tensors {
            *name = name.replace(".mlp.fc1.", ".mlp.w12.").replace(".mlp.fc2.", ".mlp.w3.");
            *name = name.replace("reg_token", "register_tokens");
        }
        tensors.push(("mask_token".into(), HostTensor::scalar(0.0f32)));
        let loaded = load(&Archive::from(tensors), &*model, &specs, 2);
        assert!(loaded.matching.is_exact(), "{}", loaded.matching);
        assert_eq!(loaded.values, values);
    }
}
