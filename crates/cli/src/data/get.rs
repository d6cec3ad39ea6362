//! `octant data get`: published data sets, from where they are published.

use crate::Ending;
use crate::fetching;
use crate::output::{Json, bytes, duration};
use anyhow::{Context, Result, bail};
use octant_fetch::{Checksum, DownloadCache, Item};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Fetch a published data set: resumed where it broke off, and verified
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Which one; all are listed if it is not given
    name: Option<String>,
    /// The folder to keep it in; data/NAME if not given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Take the files from there instead: a folder, https://…, s3://… or gs://…
    #[arg(long, value_name = "LOCATION")]
    mirror: Option<String>,
    /// Print one JSON object per file
    #[arg(long)]
    json: bool,
}

/// A data set that can be fetched. Addresses and checksums are those that its authors or torchvision publish.
struct Published {
    name: &'static str,
    about: &'static str,
    base: &'static str,
    /// Names and MD5 sums.
    files: &'static [(&'static str, &'static str)],
    recipe: &'static str,
}

const PUBLISHED: [Published; 5] = [
    Published {
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
    Published {
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
    Published {
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
    Published {
        name: "cifar10",
        about: "60,000 images, 32×32, 10 classes, 163 MiB; read without unpacking",
        base: "https://www.cs.toronto.edu/~kriz/",
        files: &[("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a")],
        recipe: "cifar100-efficientnetv2",
    },
    Published {
        name: "cifar100",
        about: "60,000 images, 32×32, 100 classes, 161 MiB; read without unpacking",
        base: "https://www.cs.toronto.edu/~kriz/",
        files: &[("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85")],
        recipe: "cifar100-efficientnetv2",
    },
];

pub(super) fn run(arguments: Arguments) -> Result<Ending> {
    let Some(name) = &arguments.name else {
        list(arguments.json);
        return Ok(Ending::Done);
    };
    let names: Vec<&str> = PUBLISHED.iter().map(|set| set.name).collect();
    let Some(set) = PUBLISHED.iter().find(|set| set.name == name) else {
        bail!(
            "there is no address for {name:?}; there are {}. IRSTD-1k and other sets that ask for consent have to be \
             fetched by hand; `octant data synth irstd DIR` makes up images of that kind",
            names.join(", ")
        );
    };
    let out = arguments.out.clone().unwrap_or_else(|| Path::new("data").join(set.name));
    let mut store = DownloadCache::open(&out)?.with_log(|line| eprintln!("{line}"));
    if let Some(mirror) = &arguments.mirror {
        store = store.mirror(mirror)?;
    }
    for (file, md5) in set.files {
        fetch(&store, &out, set, file, md5, arguments.json)?;
    }
    if !arguments.json {
        println!("next: octant data show {0}, or octant train {1} --data {0}", out.display(), set.recipe);
    }
    Ok(Ending::Done)
}

fn fetch(store: &DownloadCache, out: &Path, set: &Published, file: &str, md5: &str, as_json: bool) -> Result<()> {
    let begun = Instant::now();
    let item = Item {
        name: file.to_string(),
        url: format!("{}{file}", set.base),
        bytes: None,
        checksum: Some(Checksum::Md5(md5.to_string())),
    };
    let fetched = fetching::showing(file, |progress| store.get(&item, progress));
    let path = fetched.with_context(|| format!("{} could not be fetched", set.name))?;
    let kept = out.join(file);
    if path != kept {
        std::fs::copy(&path, &kept).with_context(|| format!("cannot write {}", kept.display()))?;
    }
    let size = std::fs::metadata(&kept)?.len();
    match as_json {
        true => Json::line(
            json!({ "event": "file", "path": kept, "bytes": size, "seconds": begun.elapsed().as_secs_f64() }),
        ),
        false => println!("{}  {}, verified, {}", kept.display(), bytes(size), duration(begun.elapsed())),
    }
    Ok(())
}

fn list(as_json: bool) {
    for set in &PUBLISHED {
        match as_json {
            true => Json::line(json!({ "event": "set", "name": set.name, "about": set.about, "recipe": set.recipe })),
            false => println!("{:<14} {}", set.name, set.about),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_checksums_and_its_own_name() {
        for (position, set) in PUBLISHED.iter().enumerate() {
            assert!(PUBLISHED[..position].iter().all(|before| before.name != set.name));
            assert!(set.base.ends_with('/') && !set.files.is_empty());
            for (_, md5) in set.files {
                assert!(md5.len() == 32 && md5.chars().all(|digit| digit.is_ascii_hexdigit()));
            }
        }
    }
}
