//! The list of models: names, aliases, preprocessing, and how to build each.

use crate::{Model, ModelTask, describe};
use octant_graph::GraphError;
use octant_nn::VariableKind;

mod entries;
mod listing;
mod published;

pub use listing::{matching, smallest_of_families};

/// The same network as torchvision and as timm have it: other names in files, other epsilons of norms, other preparation
/// of images. Where the keys of a file differ, the file decides; a name with one of timm's tags is timm's.
const COUNTERPARTS: &[(&str, &str)] = &[
    ("resnet18", "timm_resnet18"),
    ("resnet34", "timm_resnet34"),
    ("resnet50", "timm_resnet50"),
    ("resnet101", "timm_resnet101"),
    ("resnet152", "timm_resnet152"),
    ("efficientnet_b0", "timm_efficientnet_b0"),
    ("efficientnet_b1", "timm_efficientnet_b1"),
    ("efficientnet_b2", "timm_efficientnet_b2"),
    ("efficientnet_b3", "timm_efficientnet_b3"),
    ("efficientnet_b4", "timm_efficientnet_b4"),
    ("efficientnet_b5", "timm_efficientnet_b5"),
    ("efficientnet_b6", "timm_efficientnet_b6"),
    ("efficientnet_b7", "timm_efficientnet_b7"),
    ("efficientnet-tiny", "efficientnet_timm-tiny"),
    ("mobilenet_v3_large", "mobilenetv3_large_100"),
    ("mobilenet_v3_small", "mobilenetv3_small_100"),
    ("mobilenet_v3-tiny", "mobilenetv3_timm-tiny"),
    ("convnext_tiny", "timm_convnext_tiny"),
    ("convnext_small", "timm_convnext_small"),
    ("convnext_base", "timm_convnext_base"),
    ("convnext_large", "timm_convnext_large"),
    ("convnext-test", "convnext_timm-test"),
    ("vit_b_16", "vit_base_patch16_224"),
    ("vit_b_32", "vit_base_patch32_224"),
    ("vit_l_16", "vit_large_patch16_224"),
    ("vit-test", "vit_timm-test"),
    ("swin_t", "swin_tiny_patch4_window7_224"),
    ("swin_s", "swin_small_patch4_window7_224"),
    ("swin_b", "swin_base_patch4_window7_224"),
    ("swin-test", "swin_timm-test"),
];

/// How images are brought to a model's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interpolation {
    /// The nearest pixel.
    Nearest,
    /// Straight lines between pixels.
    Bilinear,
    /// Cubic curves between pixels.
    Bicubic,
}

impl Interpolation {
    /// The name in lists and files.
    pub const fn name(self) -> &'static str {
        match self {
            Interpolation::Nearest => "nearest",
            Interpolation::Bilinear => "bilinear",
            Interpolation::Bicubic => "bicubic",
        }
    }
}

/// What the reference weights expect of an image. Values are scaled to `0..=range`, then `(value - mean) / deviation`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preprocessing {
    /// Height, width and channels.
    pub input: [usize; 3],
    /// What the value 255 becomes before the mean is subtracted: 1 or 255.
    pub range: f64,
    /// Per channel.
    pub mean: [f64; 3],
    /// Per channel.
    pub deviation: [f64; 3],
    /// How images are resized.
    pub interpolation: Interpolation,
    /// In evaluation, the part of the resized image's side that is kept, around the center.
    pub crop: f64,
}

/// One model of the zoo.
#[derive(Debug, Clone, Copy)]
pub struct ModelEntry {
    /// The name here.
    pub name: &'static str,
    /// The file in [`families`](crate::families).
    pub family: &'static str,
    /// The names in timm and torchvision, if they differ.
    pub aliases: &'static [&'static str],
    /// What the output means.
    pub task: ModelTask,
    /// The head of the reference weights.
    pub classes: usize,
    /// What the reference weights expect.
    pub preprocessing: Preprocessing,
    /// The license of the reference weights, or "none published".
    pub license: &'static str,
    /// Builds the network with a head of that size.
    pub build: fn(usize) -> Box<dyn Model>,
}

/// What a model costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelSize {
    /// Numbers that learn.
    pub parameters: usize,
    /// Multiply–adds of one forward pass over an image of the native size.
    pub multiply_adds: u64,
}

impl ModelEntry {
    /// What the model costs with its own head, at its native image size. It is traced and dropped.
    pub fn size(&self) -> Result<ModelSize, GraphError> {
        let (specs, multiply_adds) = describe(&*(self.build)(self.classes), self.preprocessing.input)?;
        let parameters = specs.iter().filter(|spec| spec.kind == VariableKind::Parameter);
        Ok(ModelSize { parameters: parameters.map(|spec| spec.shape.elements()).sum(), multiply_adds })
    }
}

/// An unknown model was requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZooError {
    /// No entry has that name or alias.
    #[error("there is no model {name:?}{}; `octant models` lists all", suggestion(.near))]
    Unknown {
        /// What was requested.
        name: String,
        /// Names that are spelled alike.
        near: Vec<&'static str>,
    },
    /// There is a network, but no weights of that name.
    #[error("there are no published weights {name:?} in the list ({what}); pass a file instead")]
    Unpublished {
        /// What was requested.
        name: String,
        /// What there is instead.
        what: String,
    },
}

fn suggestion(near: &[&str]) -> String {
    if near.is_empty() { String::new() } else { format!(" (did you mean {}?)", near.join(", ")) }
}

pub use entries::ENTRIES;
pub use published::{Published, published};

/// The entry of that name or alias; case and `-`/`_` do not matter. timm's names end in a tag after a dot that chooses
/// weights, not a network (`resnet50.a1_in1k`), so a tag that is not known is no hindrance: it stands for timm's own form
/// of the network. Its hub writes `timm/` in front.
pub fn find(name: &str) -> Result<&'static ModelEntry, ZooError> {
    let wanted = normal(name);
    let named = |wanted: &str| ENTRIES.iter().find(|entry| entry.names().any(|known| normal(known) == wanted));
    let without_tag = || {
        let (name, tag) = wanted.strip_prefix("timm/").unwrap_or(&wanted).split_once('.')?;
        let entry = named(name)?;
        let is_torchvisions = tag.starts_with("tv");
        Some(entry.counterpart().filter(|other| other.is_timms() && !is_torchvisions).unwrap_or(entry))
    };
    let of_hub = || wanted.strip_prefix("timm/").and_then(named);
    let found = named(&wanted).or_else(without_tag).or_else(of_hub);
    found.ok_or_else(|| ZooError::Unknown { name: name.to_string(), near: near(&wanted) })
}

impl ModelEntry {
    /// The name here and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// The same network as the other reference has it, where both have it.
    pub fn counterpart(&self) -> Option<&'static ModelEntry> {
        let other = COUNTERPARTS.iter().find_map(|&(torchvision, timm)| match self.name {
            name if name == torchvision => Some(timm),
            name if name == timm => Some(torchvision),
            _ => None,
        })?;
        ENTRIES.iter().find(|entry| entry.name == other)
    }

    /// Whether this is timm's form of a network that torchvision has too.
    fn is_timms(&self) -> bool {
        COUNTERPARTS.iter().any(|(_, timm)| *timm == self.name)
    }

    /// timm's tag at the end of a name of this entry.
    fn tag_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.split_once('.').map(|(_, tag)| tag)
    }
}

/// The model of that name with a head of `classes`, or of the reference's size.
pub fn build(name: &str, classes: Option<usize>) -> Result<Box<dyn Model>, ZooError> {
    let entry = find(name)?;
    Ok((entry.build)(classes.unwrap_or(entry.classes)))
}

fn normal(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

/// Up to three names within two edits of the requested one, nearest first.
fn near(wanted: &str) -> Vec<&'static str> {
    let distance = |entry: &ModelEntry| entry.names().map(|name| strsim::osa_distance(wanted, &normal(name))).min();
    let mut ranked: Vec<(usize, &str)> =
        ENTRIES.iter().filter_map(|entry| Some((distance(entry)?, entry.name))).collect();
    ranked.retain(|(distance, _)| *distance <= 2);
    ranked.sort();
    ranked.into_iter().take(3).map(|(_, name)| name).collect()
}
