//! `octant data convert`: labeled objects from one form to another.

use crate::output::{Json, count};
use crate::{Ending, fetching};
use anyhow::{Result, bail};
use octant_data::LabelKind;
use octant_data::detection::{BoxForm, ImageTiles, convert_in_tiles};
use serde_json::json;
use std::path::PathBuf;

/// Write a data set of boxes or outlines in another form; its images are copied, the source stays as it is
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A .yaml file of Ultralytics' form, a COCO .json file, or a folder with either, with Annotations/*.xml or with DOTA's labelTxt/
    source: PathBuf,
    /// The folder to write into; it must be new or empty
    out: PathBuf,
    /// The form to write: yolo (Ultralytics' data.yaml with images/ and labels/), coco (annotations/instances_*.json), voc
    /// (Pascal VOC's Annotations/*.xml) or masks (masks/*.png with a class per pixel, from outlines, and classes.txt)
    #[arg(long)]
    to: BoxForm,
    /// What labels say of every object: boxes, outlines, keypoints or corners (of rotated boxes); keypoints where the data set
    /// names them, else boxes, if not given; outlines for masks
    #[arg(long, value_name = "KIND")]
    labels: Option<LabelKind>,
    /// Cut larger images into tiles of SIDE pixels that share OVERLAP or more, a fifth of the side if not given
    #[arg(long, value_name = "SIDE[,OVERLAP]")]
    tiles: Option<ImageTiles>,
    /// Labels listed that are left out
    #[arg(long, default_value_t = 20)]
    show: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Ending> {
    let source = fetching::localize_data(&arguments.source)?;
    if !source.exists() {
        bail!("there is no {}; give the folder or file of a data set", source.display());
    }
    let to_masks = arguments.to == BoxForm::Masks;
    let kind = match arguments.labels {
        None if to_masks => LabelKind::Outlines,
        labels => super::opened::kind_of(&source, labels).unwrap_or_default(),
    };
    let done = convert_in_tiles(&source, &arguments.out, arguments.to, kind, arguments.tiles)?;
    let opens = done.opens.display();
    if arguments.json {
        Json::line(json!({
            "event": "done", "images": done.images, "boxes": done.boxes, "dropped": done.dropped, "data": done.opens,
        }));
        return Ok(Ending::Done);
    }
    let objects = if to_masks { "outlines" } else { "boxes" };
    println!("{} with {} {objects} in {opens}", count(done.images as u64, "image"), done.boxes);
    if !done.dropped.is_empty() {
        println!("\n{} left out:", count(done.dropped.len() as u64, "label"));
        done.dropped.iter().take(arguments.show).for_each(|line| println!("  {line}"));
        let more = done.dropped.len().saturating_sub(arguments.show);
        if more > 0 {
            println!("  … and {more} more (--show {})", done.dropped.len());
        }
    }
    if to_masks {
        println!("next: octant data show {opens}, or octant train segment --data {opens}");
        return Ok(Ending::Done);
    }
    let task = octant_recipe::recipe_of_labels(kind);
    println!("next: octant data show {opens} --labels {}, or octant train {task} --data {opens}", kind.name());
    Ok(Ending::Done)
}
