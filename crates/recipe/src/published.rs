//! Data sets that can be fetched from where they are published.

use crate::error::{Result, refusal};
use octant_data::LabelKind;
use octant_data::synth::SynthKind;

/// The recipe that learns from generated data of a kind.
pub fn recipe_for(kind: SynthKind) -> &'static str {
    match kind {
        SynthKind::Infrared => "mshnet-irstd",
        SynthKind::Shapes => "classify",
        SynthKind::Scenes => "detect",
        SynthKind::Instances => "instance",
        SynthKind::Figures => "pose",
        SynthKind::Vehicles => "obb",
        SynthKind::Semantic => "segment",
        // Tracks are of a detector that knows the shapes.
        SynthKind::Moving => "demo-track",
        SynthKind::Regression => "regress",
    }
}

/// The recipe that learns from objects whose labels say that.
pub fn recipe_of_labels(kind: LabelKind) -> &'static str {
    match kind {
        LabelKind::Boxes => "detect",
        LabelKind::Outlines => "instance",
        LabelKind::Keypoints => "pose",
        LabelKind::Corners => "obb",
    }
}

/// A data set that can be fetched. Addresses and checksums are those that its authors or torchvision publish.
pub struct PublishedData {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub about: &'static str,
    /// The address in front of the names of its files.
    pub base: &'static str,
    /// Names and MD5 sums.
    pub files: &'static [(&'static str, &'static str)],
    /// A recipe that trains on it.
    pub recipe: &'static str,
}

/// All of them.
pub const PUBLISHED_DATA: [PublishedData; 5] = [
    PublishedData {
        name: "fashion-mnist",
        about: "70,000 gray images of clothes, 28×28, 10 classes, 29 MiB",
        base: "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        files: &[
            ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
            ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
            ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
        ],
        recipe: "fashion-mnist",
    },
    PublishedData {
        name: "mnist",
        about: "70,000 gray images of handwritten digits, 28×28, 10 classes, 11 MiB",
        base: "https://ossci-datasets.s3.amazonaws.com/mnist/",
        files: &[
            ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
            ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
            ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
        ],
        recipe: "fashion-mnist",
    },
    PublishedData {
        name: "kmnist",
        about: "70,000 gray images of Japanese characters, 28×28, 10 classes, 20 MiB",
        base: "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        files: &[
            ("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
            ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
            ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
            ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"),
        ],
        recipe: "fashion-mnist",
    },
    PublishedData {
        name: "cifar10",
        about: "60,000 images, 32×32, 10 classes, 163 MiB; read without unpacking",
        base: "https://www.cs.toronto.edu/~kriz/",
        files: &[("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a")],
        recipe: "cifar100-efficientnetv2",
    },
    PublishedData {
        name: "cifar100",
        about: "60,000 images, 32×32, 100 classes, 161 MiB; read without unpacking",
        base: "https://www.cs.toronto.edu/~kriz/",
        files: &[("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85")],
        recipe: "cifar100-efficientnetv2",
    },
];

/// The published data set of that name.
pub fn published_data(name: &str) -> Result<&'static PublishedData> {
    PUBLISHED_DATA.iter().find(|set| set.name == name).ok_or_else(|| {
        let names: Vec<&str> = PUBLISHED_DATA.iter().map(|set| set.name).collect();
        refusal!(
            "there is no address for {name:?}; there are {}. IRSTD-1k and other sets that require consent have to be \
             fetched by hand; `octant data synth irstd DIR` generates images of that kind",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_checksums_and_its_own_name() {
        for (position, set) in PUBLISHED_DATA.iter().enumerate() {
            assert!(PUBLISHED_DATA[..position].iter().all(|before| before.name != set.name));
            assert!(set.base.ends_with('/') && !set.files.is_empty());
            for (_, md5) in set.files {
                assert!(md5.len() == 32 && md5.chars().all(|digit| digit.is_ascii_hexdigit()));
            }
        }
    }
}
