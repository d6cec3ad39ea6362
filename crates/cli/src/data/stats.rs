//! `octant data stats`: the figures of a data set.

use super::opened::{self, Which};
use crate::output::Json;
use crate::{Ending, fetching};
use anyhow::Result;
use octant_data::Dataset;
use octant_data::detection::{self, BoxSurvey, LabelRule};
use octant_data::readers::{LabelForm, join_splits};
use serde_json::json;
use std::path::PathBuf;

/// Mean, deviation, sizes and balance of the classes of a data set
///
/// Images are counted as training reads them: 8 bits per channel, gray repeated as RGB, without alpha, upright.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The folder or file of a data set, in any layout that can be read
    dir: PathBuf,
    /// Which samples
    #[arg(long, value_enum, default_value_t = Which::Train)]
    split: Which,
    /// What labels say of every object: boxes, outlines, keypoints or corners (of rotated boxes); or masks, a class per pixel drawn
    /// from outlines. Keypoints where the data set names them, else boxes, if not given
    #[arg(long, value_name = "KIND")]
    labels: Option<LabelForm>,
    /// Threads that read; one per core if not given
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// Write the balance of the classes as an image
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Ending> {
    let splits = opened::open_labeled(&arguments.dir, arguments.split, opened::as_trained(), arguments.labels)?;
    let dataset = join_splits(&splits);
    let survey = opened::surveyed(&dataset, arguments.workers);
    let statistics = &survey.statistics;
    let names = dataset.class_names();
    let boxes = boxes(&arguments)?;
    let undrawn = match arguments.labels {
        Some(LabelForm::Masks) => splits.iter().map(|(_, set)| set.left_out().len()).sum(),
        Some(LabelForm::Objects(_)) | None => 0,
    };
    // A chart of nothing would only look like a mistake.
    let plotted = arguments.plot.as_ref().filter(|_| !statistics.classes.is_empty());
    if let Some(path) = plotted {
        octant_run::plots::class_balance(statistics, names).save(path)?;
    }
    if arguments.json {
        let sizes: Vec<_> =
            statistics.sizes.iter().map(|(size, count)| json!({ "size": size, "count": count })).collect();
        let classes: Vec<_> = statistics
            .classes
            .iter()
            .map(|(class, count)| json!({ "class": class, "name": names.get(*class as usize), "count": count }))
            .collect();
        Json::line(json!({
            "event": "done", "samples": statistics.samples, "unreadable": survey.corrupt.len() + survey.mismatched.len(),
            "mean": statistics.mean(), "std": statistics.std(), "sizes": sizes, "classes": classes,
            "marked_pixels": statistics.marked.0, "mask_pixels": statistics.marked.1,
            "undrawn_labels": matches!(arguments.labels, Some(LabelForm::Masks)).then_some(undrawn),
            "boxes": boxes.as_ref().map(|boxes| json!({
                "count": boxes.objects, "images_without": boxes.empty, "most_per_image": boxes.most,
                "longer_side_up_to": BoxSurvey::SIZES, "by_longer_side": boxes.sizes, "dropped": boxes.dropped,
                "labels": boxes.kind.name(), "points": boxes.points, "crossing_outlines": boxes.crossing,
                "unknown_keypoints": boxes.unseen[0], "hidden_keypoints": boxes.unseen[1],
            })),
        }));
        return Ok(Ending::Done);
    }
    print!("{statistics}");
    if !statistics.classes.is_empty() {
        print!("{}", statistics.class_plot(names, 40));
    }
    if let Some(boxes) = &boxes {
        println!("{boxes}");
    }
    if undrawn > 0 {
        println!(
            "{undrawn} labels are not drawn; octant data verify {} --labels masks lists them",
            arguments.dir.display()
        );
    }
    let unreadable = survey.corrupt.len() + survey.mismatched.len();
    if unreadable > 0 {
        println!("{unreadable} samples could not be read; octant data verify {} lists them", arguments.dir.display());
    }
    match (plotted, &arguments.plot) {
        (Some(path), _) => println!("the balance of the classes is in {}", path.display()),
        (None, Some(path)) => println!("these samples have no classes, so there is no chart in {}", path.display()),
        (None, None) => {}
    }
    Ok(Ending::Done)
}

/// What the labels say, where they are boxes.
fn boxes(arguments: &Arguments) -> Result<Option<BoxSurvey>> {
    let path = fetching::localize_data(&arguments.dir)?;
    let labels = match arguments.labels {
        Some(LabelForm::Masks) => return Ok(None),
        Some(LabelForm::Objects(kind)) => Some(kind),
        None => None,
    };
    if !detection::holds_boxes(&path) {
        return Ok(None);
    }
    let mut all = BoxSurvey::default();
    for part in opened::parts(arguments.split) {
        // Samples that are in no part have been counted with the others.
        let kind = opened::kind_of(&path, labels).unwrap_or_default();
        if detection::has_part(&path, *part, kind) {
            let set = detection::open_as(&path, *part, LabelRule::DropLabel, kind)?;
            all.add(&detection::survey(&set));
        }
    }
    Ok(Some(all))
}
