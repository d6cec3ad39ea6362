//! Identifies the model of a file of weights: by its metadata, else by its keys and shapes.

use crate::converted::with_current_names;
use crate::{CellDetail, ModelEntry, Preprocessing, describe};
use octant_archive::Archive;
use octant_graph::GraphError;
use octant_nn::VariableSpec;
use std::collections::{BTreeSet, HashSet};

const MODEL: &str = "octant.model";
const CLASSES: &str = "octant.classes";
const NAMES: &str = "octant.class_names";
const WARM_UP: &str = "octant.warm_up";
const SETTINGS: &str = "octant.predict";
const THRESHOLDS: &str = "octant.thresholds";
const INPUT: &str = "octant.input";

/// The names of ImageNet's 1000 classes, in the order of every published head.
const IMAGENET: &str = include_str!("imagenet.txt");

/// The metadata of a file of weights.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Card {
    /// The name of the model.
    pub model: Option<String>,
    /// The names of classes or columns, in the order of the head's outputs. They are what the numbers mean.
    pub names: Vec<String>,
    /// The weights were learned, and have to be used, with the network of its warm-up phase.
    pub warm_up: bool,
    /// Settings of a recipe that decide the predictions, as TOML.
    pub settings: Option<String>,
    /// Height and width of the images that the weights were trained with, where the file says so.
    pub image: Option<[usize; 2]>,
    /// Of several labels per image: the probability from which on each is predicted.
    pub thresholds: Vec<f64>,
}

impl Card {
    /// Reads it from an archive.
    pub fn of(archive: &Archive) -> Card {
        let value = |wanted: &str| value_of(archive, wanted);
        let own: Option<Vec<String>> = value(NAMES).and_then(|text| serde_json::from_str(text).ok());
        let input: Option<[usize; 3]> = value(INPUT).and_then(|text| serde_json::from_str(text).ok());
        let of_trainer = || {
            let side: usize = value("train_args.imgsz")?.parse().ok()?;
            Some([side; 2])
        };
        Card {
            model: value(MODEL).map(str::to_string).or_else(|| ultralytics_model(archive)),
            names: own.unwrap_or_else(|| pickled_names(archive)),
            warm_up: value(WARM_UP) == Some("true"),
            settings: value(SETTINGS).map(str::to_string),
            thresholds: value(THRESHOLDS).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
            image: input.map(|[height, width, _]| [height, width]).or_else(of_trainer),
        }
    }

    /// The model that the file names, if the zoo has it.
    pub fn entry(&self) -> Option<&'static ModelEntry> {
        crate::find(self.model.as_deref()?).ok()
    }

    /// The part of a file's metadata with settings that decide the predictions.
    pub fn settings_metadata(settings: String) -> (String, String) {
        (SETTINGS.into(), settings)
    }

    /// The part of a file's metadata with the thresholds of labels; none where there are none.
    pub fn thresholds_metadata(thresholds: &[f64]) -> Option<(String, String)> {
        // A list of numbers is always JSON.
        (!thresholds.is_empty()).then(|| (THRESHOLDS.into(), serde_json::to_string(thresholds).unwrap_or_default()))
    }

    /// The part of a file's metadata that changes between the phases of a run.
    pub fn phase_metadata(warm_up: bool) -> (String, String) {
        (WARM_UP.into(), warm_up.to_string())
    }
}

fn value_of<'a>(archive: &'a Archive, wanted: &str) -> Option<&'a str> {
    archive.metadata.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str())
}

/// The model that Ultralytics' trainer writes beside the tensors: the file of its architecture and its scale, or the weights
/// that it started from.
fn ultralytics_model(archive: &Archive) -> Option<String> {
    let stem = |key: &str| {
        let name = value_of(archive, key)?.rsplit(['/', '\\']).next()?;
        Some(name.split_once('.').map_or(name, |(stem, _)| stem).to_string())
    };
    let scale = value_of(archive, "yaml.scale").unwrap_or_default();
    let architecture = stem("yaml.yaml_file").or_else(|| stem("model.yaml_file"));
    // The scale stands before the task: yolo11-seg of scale n is yolo11n-seg.
    let scaled = |name: &String| match name.split_once('-') {
        Some((family, task)) => format!("{family}{scale}-{task}"),
        None => format!("{name}{scale}"),
    };
    let named = architecture.iter().flat_map(|name| [name.clone(), scaled(name)]);
    named.chain(stem("train_args.model")).find(|name| crate::find(name).is_ok())
}

/// The names of classes that a pickled network keeps by number.
fn pickled_names(archive: &Archive) -> Vec<String> {
    let by_number = |number: usize| value_of(archive, &format!("names.{number}"));
    (0..).map_while(by_number).map(str::to_string).collect()
}

/// The metadata that a file of weights should have; `preprocessing` is what they were trained with.
pub fn metadata(
    entry: &ModelEntry,
    preprocessing: &Preprocessing,
    classes: usize,
    names: &[String],
) -> Vec<(String, String)> {
    let metadata = [
        (MODEL, entry.name.into()),
        (CLASSES, classes.to_string()),
        // A list of strings is always JSON.
        (NAMES, serde_json::to_string(names).unwrap_or_default()),
        (INPUT, format!("{:?}", preprocessing.input)),
        ("octant.range", preprocessing.range.to_string()),
        ("octant.mean", format!("{:?}", preprocessing.mean)),
        ("octant.deviation", format!("{:?}", preprocessing.deviation)),
        ("octant.interpolation", preprocessing.interpolation.name().into()),
        ("octant.crop", preprocessing.crop.to_string()),
    ];
    metadata.map(|(key, value)| (key.to_string(), value)).to_vec()
}

/// What keys and shapes reveal about a file.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    /// The requested model, or the same network as another reference has it, whichever the keys belong to.
    pub entry: &'static ModelEntry,
    /// How many classes the head has; none where the file has no head.
    pub classes: Option<usize>,
    /// Keypoints per object and numbers for each, where the network predicts any.
    pub keypoints: Option<[usize; 2]>,
}

/// Finds out which reference's network of that name a file belongs to, and the size of its head.
pub fn identify(archive: &Archive, entry: &'static ModelEntry) -> Result<Identity, GraphError> {
    let mut best: Option<(usize, &'static ModelEntry, Vec<VariableSpec>)> = None;
    // Networks that come without a head are compared with one: files of trained networks have it.
    for candidate in std::iter::once(entry).chain(entry.counterpart()) {
        let (specs, _) = describe(&*(candidate.build)(candidate.classes.max(1)), candidate.preprocessing.input)?;
        let archive = with_current_names(archive, &specs);
        let found: HashSet<&str> = archive.tensors.iter().map(|(name, _)| name.as_str()).collect();
        let common = specs.iter().filter(|spec| found.contains(spec.path.as_str())).count();
        if best.as_ref().is_none_or(|(most, ..)| common > *most) {
            best = Some((common, candidate, specs));
        }
    }
    let Some((_, entry, specs)) = best else { return Ok(Identity { entry, classes: None, keypoints: None }) };
    // What grows with the number of classes is the head's output.
    let (larger, _) = describe(&*(entry.build)(entry.classes.max(1) + 1), entry.preprocessing.input)?;
    let archive = with_current_names(archive, &specs);
    let possible: BTreeSet<usize> = specs
        .iter()
        .zip(&larger)
        .filter_map(|(spec, larger)| {
            let (dims, grown) = (spec.reference_dims(), larger.reference_dims());
            let axis = (0..dims.len()).find(|&axis| grown[axis] == dims[axis] + 1)?;
            let found = archive.get(&spec.path)?.dims();
            (found.len() == dims.len()).then(|| found[axis])
        })
        .collect();
    // Hidden layers of detectors grow with the head too: the size is the one with which everything fits.
    let fits = |&classes: &usize| {
        let Ok((specs, _)) = describe(&*(entry.build)(classes), entry.preprocessing.input) else { return false };
        let fits =
            |spec: &VariableSpec| archive.get(&spec.path).is_none_or(|found| found.dims() == spec.reference_dims());
        specs.iter().all(fits)
    };
    let classes = match possible.len() {
        0 | 1 => possible.first().copied(),
        _ => possible.iter().copied().find(fits).or(possible.first().copied()),
    };
    let keypoints = keypoints_of(&archive, entry);
    Ok(Identity { entry, classes, keypoints })
}

/// Keypoints per object, and numbers for each: three, with visibility, where the head's numbers can be divided by it.
fn keypoints_of(archive: &Archive, entry: &ModelEntry) -> Option<[usize; 2]> {
    let model = (entry.build)(entry.classes.max(1));
    let CellDetail::Keypoints { .. } = model.detector()?.detail else { return None };
    let head = model.head_paths().into_iter().next()?;
    let numbers = *archive.get(&format!("{head}.cv4.0.2.weight"))?.dims().first()?;
    Some(if numbers.is_multiple_of(3) { [numbers / 3, 3] } else { [numbers / 2, 2] })
}

/// The names of the classes that published weights with a head of that size predict.
pub fn published_names(entry: &ModelEntry, classes: usize) -> Vec<String> {
    let names: Vec<String> = IMAGENET.lines().map(str::to_string).collect();
    if entry.published().is_some() && classes == names.len() { names } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::export;
    use octant_tensor::HostTensor;

    fn archive(name: &str, classes: usize, metadata: Vec<(String, String)>) -> Archive {
        let entry = crate::find(name).unwrap();
        let (specs, _) = describe(&*(entry.build)(classes), entry.preprocessing.input).unwrap();
        let values: Vec<HostTensor> = specs.iter().map(|spec| spec.initial(1)).collect();
        Archive { metadata, ..Archive::from(export(&specs, &values, 0)) }
    }

    #[test]
    fn the_size_of_the_head_comes_from_the_weights() {
        for name in [
            "resnet-tiny",
            "vit-test",
            "convnext-test",
            "mshnet-tiny",
            "unet-tiny",
            "fcn-tiny",
            "deeplabv3-tiny",
            "lraspp-tiny",
            "segformer-tiny",
            "unet_resnet-tiny",
            "fpn_resnet-tiny",
            "deeplabv3plus_resnet-tiny",
            "dinov2_linear-test",
            "mobilenet_v3-tiny",
            "swin-test",
            "dinov2-test",
        ] {
            let identity = identify(&archive(name, 7, vec![]), crate::find(name).unwrap()).unwrap();
            assert_eq!((identity.entry.name, identity.classes), (name, Some(7)));
        }
        let mut headless = archive("resnet-tiny", 7, vec![]);
        headless.tensors.retain(|(name, _)| !name.starts_with("fc."));
        assert_eq!(identify(&headless, crate::find("resnet-tiny").unwrap()).unwrap().classes, None);
    }

    #[test]
    fn a_file_says_its_names_whatever_is_in_them() {
        let names: Vec<String> = ["a, b", "\"q\"", "äöü 猫", "line\nbreak"].map(str::to_string).to_vec();
        let entry = crate::find("resnet-tiny").unwrap();
        let card = Card::of(&archive("resnet-tiny", 4, metadata(entry, &entry.preprocessing, 4, &names)));
        let image = Some([entry.preprocessing.input[0], entry.preprocessing.input[1]]);
        assert_eq!(card, Card { model: Some("resnet-tiny".into()), names, image, ..Card::default() });
        let card = Card::of(&archive("mshnet-tiny", 1, vec![Card::phase_metadata(true)]));
        assert!(card.warm_up && card.names.is_empty());
    }

    #[test]
    fn a_file_of_ultralytics_did_not_say_which_network_it_holds() {
        let with = |metadata: &[(&str, &str)]| {
            let metadata = metadata.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            Card::of(&Archive { metadata, ..Archive::from(vec![]) })
        };
        let card = with(&[
            ("train_args.imgsz", "96"),
            ("yaml.yaml_file", "/somewhere/yolo11.yaml"),
            ("yaml.scale", "s"),
            ("names.0", "cat"),
            ("names.1", "dog"),
        ]);
        assert_eq!((card.model.as_deref(), card.image), (Some("yolo11s"), Some([96, 96])));
        assert_eq!((card.names.len(), card.entry().map(|entry| entry.name)), (2, Some("yolo11s")));
        assert_eq!(with(&[("yaml.yaml_file", "yolov8n.yaml")]).model.as_deref(), Some("yolov8n"));
        let of_task = [("yaml.yaml_file", "yolo11-seg.yaml"), ("yaml.scale", "m")];
        assert_eq!(with(&of_task).model.as_deref(), Some("yolo11m-seg"));
        assert_eq!(with(&[("train_args.model", "runs\\yolo26n.pt")]).model.as_deref(), Some("yolo26n"));
        assert_eq!(with(&[("train_args.model", "best.pt")]).model, None);
    }

    #[test]
    fn imagenets_names_are_a_thousand() {
        let names = published_names(crate::find("resnet50").unwrap(), 1000);
        assert_eq!((names.len(), names[0].as_str(), names[999].as_str()), (1000, "tench", "toilet tissue"));
        assert!(published_names(crate::find("resnet50").unwrap(), 3).is_empty());
        assert!(published_names(crate::find("mshnet").unwrap(), 1000).is_empty());
    }
}
