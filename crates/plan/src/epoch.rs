//! How many images an epoch has, and where the number comes from.

use octant_recipe::Recipe;
use serde::{Deserialize, Serialize};

/// Images of an epoch where nothing is known.
const ASSUMED: usize = 50_000;

/// Training images of data sets that recipes are made for, as published: the kind of data, the number of classes where that
/// distinguishes the set from others of its kind, the images and their name.
const KNOWN: [(&str, Option<usize>, usize, &str); 5] = [
    ("irstd", None, 800, "IRSTD-1k"),
    ("idx", None, 60_000, "Fashion-MNIST and MNIST"),
    ("cifar", None, 50_000, "CIFAR-10 and CIFAR-100"),
    ("folder", Some(1000), 1_281_167, "ImageNet-1k"),
    ("boxes", Some(80), 118_287, "COCO 2017"),
];

/// Images of an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EpochImages {
    pub count: usize,
    pub source: ImageCount,
}

/// Where the number of images comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageCount {
    /// The request names it.
    Given,
    /// The data was opened.
    Counted,
    /// The data set that the recipe is made for.
    Known(String),
    /// Nothing tells it.
    Assumed,
}

impl EpochImages {
    /// The given number, then what was counted, then what is known of the recipe's data set.
    pub fn of(given: Option<usize>, recipe: &Recipe, classes: usize, counted: Option<usize>) -> EpochImages {
        let (count, source) = match (given, counted) {
            (Some(count), _) => (count, ImageCount::Given),
            (None, Some(count)) => (count, ImageCount::Counted),
            (None, None) => known(recipe, classes),
        };
        EpochImages { count, source }
    }
}

fn known(recipe: &Recipe, classes: usize) -> (usize, ImageCount) {
    // A recipe for one's own folder has the classes of the folder, whatever those of its network were.
    let is_own = recipe.data.kind == "folder" && recipe.classes.is_none() && !recipe.name.starts_with("imagenet");
    let fits = |(kind, of, ..): &&(&str, Option<usize>, usize, &str)| {
        *kind == recipe.data.kind && of.is_none_or(|of| of == classes && !is_own)
    };
    match KNOWN.iter().find(fits) {
        Some((_, _, count, name)) => (*count, ImageCount::Known(name.to_string())),
        None => (ASSUMED, ImageCount::Assumed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_know_the_size_of_their_data_sets() {
        let of = |name: &str, classes: usize| {
            let recipe = octant_recipe::check(octant_recipe::table(name).unwrap()).unwrap();
            known(&recipe, classes)
        };
        assert_eq!(of("mshnet-irstd", 1), (800, ImageCount::Known("IRSTD-1k".into())));
        assert_eq!(of("imagenet-resnet50", 1000).0, 1_281_167);
        assert_eq!(of("cifar100-efficientnetv2", 1000).0, 50_000);
        assert_eq!(of("detect", 80), (118_287, ImageCount::Known("COCO 2017".into())));
        // A folder of one's own may have any number of images, whatever its network was trained on.
        assert_eq!(of("classify", 1000), (ASSUMED, ImageCount::Assumed));
        assert_eq!(of("pix2pix", 3), (ASSUMED, ImageCount::Assumed));
    }
}
