//! The order in which samples are learned from.

use crate::error::refuse;
use crate::recipe::WINDOW;
use crate::{Cache, Data, Recipe, Result, Sampling, TaskEntry};
use octant_data::{Archives, Balance, Dataset, SampleOrder};
use octant_train::run::RunPlan;
use std::sync::Arc;

/// More streams than hosts that usually work together gain nothing, and one host reads a window of every stream at a time.
const MOST_STREAMS: usize = 64;

/// The order that the recipe names.
pub(crate) fn of(recipe: &Recipe, data: &Data) -> Result<SampleOrder> {
    let source = &recipe.data;
    let given = [("streams", source.streams.is_some()), ("window", source.window != WINDOW)];
    if let Some((key, _)) = given.iter().find(|(_, is_given)| *is_given && recipe.sampling != Sampling::Archives) {
        refuse!("`data.{key}` has no effect without `sampling = \"archives\"`; remove it");
    }
    Ok(match recipe.sampling {
        Sampling::Shuffled => SampleOrder::Plain,
        Sampling::Balanced => SampleOrder::Balanced(Arc::new(Balance::of(&*data.train)?)),
        Sampling::Archives => SampleOrder::Archives(Arc::new(archives(recipe, &*data.train)?)),
    })
}

fn archives(recipe: &Recipe, train: &dyn Dataset) -> Result<Archives> {
    let (source, images) = (&recipe.data, train.len());
    if TaskEntry::named(&recipe.task)?.has_boxes() {
        refuse!(
            "`sampling = \"archives\"` is not for task {}: its mosaics take images from all of the data; remove it",
            recipe.task
        );
    }
    if recipe.cache == Cache::Packed {
        refuse!("`cache = \"packed\"` makes one archive of all samples; remove it, or `sampling = \"archives\"`");
    }
    if train.archive(0).is_none() {
        refuse!(
            "`sampling = \"archives\"` reads archives as wholes, and the training data is no tar, TFRecord or packed files; \
             write some with `octant data pack DIR OUT --form webdataset` and train with `--data OUT`, or remove it"
        );
    }
    // A step has no more rows than there are images.
    let sizes = || recipe.step.batch_sizes().into_iter().map(move |size| size.min(images));
    let count = Archives::of(train, 1, source.window)?.len();
    if count < 2 {
        refuse!(
            "`sampling = \"archives\"` needs several archives, and the training data is one; write shards with `octant data pack \
             DIR OUT --form webdataset`, or remove it"
        );
    }
    let divides = |streams: usize| sizes().all(|size| size.is_multiple_of(streams));
    let streams = match source.streams {
        Some(streams) if streams > count => {
            refuse!("`data.streams = {streams}` is more than the {count} archives of the training data; choose fewer")
        }
        Some(streams) => match sizes().find(|size| !size.is_multiple_of(streams)) {
            Some(size) => {
                refuse!(
                    "`data.streams = {streams}` does not divide a batch of {size}; choose a divisor, or another batch"
                )
            }
            None => streams,
        },
        None => (1..=MOST_STREAMS.min(count / source.window).max(1)).rev().find(|&n| divides(n)).unwrap_or(1),
    };
    Ok(Archives::of(train, streams, source.window)?)
}

/// What an order of archives comes to, as a sentence: what is read side by side, and by this process of several.
pub fn archives_text(plan: &RunPlan) -> Option<String> {
    let SampleOrder::Archives(archives) = &plan.order else { return None };
    let (count, streams, window) = (archives.len(), archives.streams(), archives.window());
    let whole = format!(
        "samples come archive by archive: {count} archives in an order of their own per epoch, in {streams} streams, each mixing \
         {window} archives at a time"
    );
    Some(match own(plan, archives) {
        Some(own) => format!("{whole}; {own}"),
        None => whole,
    })
}

/// What this process reads, where there are several.
fn own(plan: &RunPlan, archives: &Archives) -> Option<String> {
    let process = plan.mesh.process();
    if process.is_alone() {
        return None;
    }
    let read = archives.read_by(plan.rows_here(), plan.step.batch_size, plan.run.seed, 0).len();
    let uneven = if archives.streams().is_multiple_of(process.ranks) {
        String::new()
    } else {
        format!(" (`data.streams` is no multiple of {} processes, so some streams are read by two)", process.ranks)
    };
    Some(format!("process {} of {} reads {read} of them in the first epoch{uneven}", process.rank, process.ranks))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
mod tests {
    use super::*;
    use crate::{LocalFiles, check, data, set_text, table};
    use octant_data::Glyphs;
    use octant_data::readers::write_webdataset;
    use std::path::Path;

    /// The order of a recipe for 10 tar files of 7 samples.
    fn order(dir: &Path, changes: &[&str]) -> Result<SampleOrder> {
        let mut table = table("classify").unwrap();
        set_text(&mut table, &format!("data.dir={}", dir.display())).unwrap();
        for change in ["sampling='archives'"].iter().chain(changes) {
            set_text(&mut table, change).unwrap();
        }
        let recipe = check(table)?;
        of(&recipe, &data(&recipe, &[], &LocalFiles { cache: dir.join("cache") })?)
    }

    fn streams(dir: &Path, changes: &[&str]) -> usize {
        match order(dir, changes).unwrap() {
            SampleOrder::Archives(archives) => archives.streams(),
            other => panic!("{other:?}"),
        }
    }

    fn refusal(dir: &Path, changes: &[&str]) -> String {
        order(dir, changes).err().map(|error| error.to_string()).unwrap_or_else(|| panic!("{changes:?} was taken"))
    }

    #[test]
    fn streams_divide_every_batch_and_leave_a_window_of_archives_to_each() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write_webdataset(&Glyphs::new(70, 1), &at("shards"), "train", 7).unwrap();
        write_webdataset(&Glyphs::new(20, 2), &at("shards"), "val", 20).unwrap();
        let streams = |changes: &[&str]| streams(&at("shards"), changes);
        assert_eq!(streams(&["batch_size=16"]), 2, "ten archives are two windows of four");
        assert_eq!(streams(&["batch_size=16", "data.window=1"]), 8);
        assert_eq!(streams(&["batch_size=20", "data.window=1"]), 10);
        assert_eq!(streams(&["batch_size=20", "batch_schedule=[[1, 32]]", "data.window=1"]), 4);
        assert_eq!(streams(&["batch_size=15"]), 1);
        // A step has no more rows than there are images.
        assert_eq!(streams(&["batch_size=512", "last_batch='pad'", "data.window=1"]), 10);
        assert_eq!(streams(&["batch_size=15", "data.streams=5"]), 5);
    }

    #[test]
    fn what_has_no_archives_or_no_streams_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write_webdataset(&Glyphs::new(70, 1), &at("shards"), "train", 7).unwrap();
        write_webdataset(&Glyphs::new(70, 1), &at("one"), "train", 70).unwrap();
        let shards = |changes: &[&str]| refusal(&at("shards"), changes);
        assert!(refusal(&at("one"), &[]).contains("needs several archives, and the training data is one"));
        assert!(shards(&["batch_size=16", "data.streams=5"]).contains("does not divide a batch of 16"));
        assert!(shards(&["data.streams=16"]).contains("more than the 10 archives"));
        assert!(
            shards(&["sampling='shuffled'", "data.window=2"]).contains("no effect without `sampling = \"archives\"`")
        );
        assert!(shards(&["cache='packed'"]).contains("makes one archive of all samples"));
        for class in ["round", "square"] {
            for number in 0..4 {
                let path = at("plain").join(class).join(format!("{number}.png"));
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                let image = octant_imaging::Image::filled(8, 8, 3, number);
                octant_data::write_png_u8(&path, &image).unwrap();
            }
        }
        let problem = refusal(&at("plain"), &[]);
        assert!(problem.contains("octant data pack DIR OUT --form webdataset"), "{problem}");
    }
}
