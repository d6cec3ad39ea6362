//! The files of synthetic data sets, written on all cores.

use super::{
    FIGURE_CLASSES, MovingShape, SCENE_CLASSES, SEEN, SEMANTIC_CLASSES, SynthKind, SynthSize, VEHICLE_CLASSES,
};
use super::{create, figures, infrared, instances, label_lines, moving, regression, scene, semantic};
use super::{shapes, vehicles, write_text};
use crate::{DataError, LabeledBox, NAMES_FILE, SampleRng, write_png_indexed, write_png_u8};
use octant_imaging::Image;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Hears how many images are done.
type Progress<'a> = &'a (dyn Fn(usize) + Sync);

pub(super) fn infrared_files(folder: &Path, size: SynthSize, progress: Progress) -> Result<(), DataError> {
    create(&folder.join("images"))?;
    create(&folder.join("masks"))?;
    let names = on_all_cores(size.count, progress, |number| {
        let name = format!("scene{number:05}");
        let (image, mask) = infrared(size.side, &mut size.rng(0, number));
        write_png_u8(folder.join(format!("images/{name}.png")), &image)?;
        write_png_u8(folder.join(format!("masks/{name}.png")), &mask.map(|value| value * 255))?;
        Ok(name)
    })?;
    let (train, test) = names.split_at(size.first_test());
    write_text(&folder.join("trainval.txt"), &train.join("\n"))?;
    write_text(&folder.join("test.txt"), &test.join("\n"))
}

pub(super) fn shapes_files(folder: &Path, size: SynthSize, progress: Progress) -> Result<(), DataError> {
    for part in ["images", "labels"] {
        create(&folder.join(part))?;
    }
    for class in shapes::NAMES {
        create(&folder.join("train").join(class))?;
        create(&folder.join("val").join(class))?;
    }
    on_all_cores(size.count, progress, |number| {
        let (image, objects) = shapes(size.side, 1 + number % 4, &mut size.rng(0, number));
        write_png_u8(folder.join(format!("images/{number:05}.png")), &image)?;
        write_text(&folder.join(format!("labels/{number:05}.txt")), &label_lines(&objects, size.side))?;
        let (single, object) = shapes(size.side, 1, &mut size.rng(1, number));
        let part = if number < size.first_test() { "train" } else { "val" };
        let class = object.first().map_or(shapes::NAMES[0], |object| shapes::NAMES[object.class as usize]);
        write_png_u8(folder.join(format!("{part}/{class}/{number:05}.png")), &single)
    })?;
    Ok(())
}

/// Images with objects in Ultralytics' form.
pub(super) fn object_files(
    kind: SynthKind,
    folder: &Path,
    size: SynthSize,
    progress: Progress,
) -> Result<(), DataError> {
    type Make = fn(usize, &mut SampleRng) -> (Image<u8>, Vec<LabeledBox>);
    let (make, names): (Make, &[&str]) = match kind {
        SynthKind::Instances => (instances, &SCENE_CLASSES),
        SynthKind::Figures => (figures, &FIGURE_CLASSES),
        SynthKind::Vehicles => (vehicles, &VEHICLE_CLASSES),
        _ => (scene, &SCENE_CLASSES),
    };
    for part in ["images/train", "images/val", "labels/train", "labels/val"] {
        create(&folder.join(part))?;
    }
    on_all_cores(size.count, progress, |number| {
        let (image, objects) = make(size.side, &mut size.rng(0, number));
        let part = if number < size.first_test() { "train" } else { "val" };
        write_png_u8(folder.join(format!("images/{part}/{number:05}.png")), &image)?;
        write_text(&folder.join(format!("labels/{part}/{number:05}.txt")), &label_lines(&objects, size.side))
    })?;
    let mut yaml = String::from("train: images/train\nval: images/val\n");
    if kind == SynthKind::Figures {
        yaml += "kpt_shape: [5, 3]\nflip_idx: [0, 2, 1, 4, 3]\n";
    }
    yaml += "names:\n";
    for (class, name) in names.iter().enumerate() {
        let _ = writeln!(yaml, "  {class}: {name}");
    }
    write_text(&folder.join("data.yaml"), &yaml)
}

pub(super) fn semantic_files(folder: &Path, size: SynthSize, progress: Progress) -> Result<(), DataError> {
    for part in ["images/train", "images/val", "masks/train", "masks/val"] {
        create(&folder.join(part))?;
    }
    on_all_cores(size.count, progress, |number| {
        let (image, labels) = semantic(size.side, &mut size.rng(0, number));
        let part = if number < size.first_test() { "train" } else { "val" };
        write_png_u8(folder.join(format!("images/{part}/{number:05}.png")), &image)?;
        write_png_indexed(folder.join(format!("masks/{part}/{number:05}.png")), &labels)
    })?;
    write_text(&folder.join(NAMES_FILE), &(SEMANTIC_CLASSES.join("\n") + "\n"))
}

pub(super) fn moving_files(folder: &Path, size: SynthSize, progress: Progress) -> Result<(), DataError> {
    for part in ["img1", "gt"] {
        create(&folder.join(part))?;
    }
    let lines = on_all_cores(size.count, progress, |frame| {
        let (image, shapes) = moving(size.side, frame, &mut size.rng(0, 0));
        let number = frame + 1;
        write_png_u8(folder.join(format!("img1/{number:06}.png")), &image)?;
        let mut lines = String::new();
        for MovingShape { track, place, visibility } in shapes {
            let (width, height, class) = (place.x1 - place.x0, place.y1 - place.y0, place.class + 1);
            // What is hidden is not counted.
            let flag = u8::from(visibility >= SEEN);
            let _ = writeln!(
                lines,
                "{number},{track},{:.2},{:.2},{width:.2},{height:.2},{flag},{class},{visibility:.2}",
                place.x0, place.y0
            );
        }
        Ok(lines)
    })?;
    write_text(&folder.join("gt/gt.txt"), &lines.concat())?;
    let (length, side) = (size.count, size.side);
    let facts = format!(
        "[Sequence]\nname=moving\nimDir=img1\nframeRate=30\nseqLength={length}\nimWidth={side}\nimHeight={side}\nimExt=.png\n"
    );
    write_text(&folder.join("seqinfo.ini"), &facts)
}

pub(super) fn regression_files(folder: &Path, size: SynthSize, progress: Progress) -> Result<(), DataError> {
    create(&folder.join("images"))?;
    let lines = on_all_cores(size.count, progress, |number| {
        let (image, [discs, covered]) = regression(size.side, &mut size.rng(0, number));
        write_png_u8(folder.join(format!("images/{number:05}.png")), &image)?;
        Ok(format!("images/{number:05}.png,{discs},{covered:.6}\n"))
    })?;
    let (train, test) = lines.split_at(size.first_test());
    for (name, lines) in [("train.csv", train), ("test.csv", test)] {
        write_text(&folder.join(name), &format!("path,discs,covered\n{}", lines.concat()))?;
    }
    Ok(())
}

/// What `make` returns for every number below `count`, in order. Threads take the next number when they are done with one.
fn on_all_cores<T: Send>(
    count: usize,
    progress: Progress,
    make: impl Fn(usize) -> Result<T, DataError> + Sync,
) -> Result<Vec<T>, DataError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut made = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(made);
            }
            // After a failure the other threads end as well.
            made.push((number, make(number).inspect_err(|_| next.store(count, Ordering::Relaxed))?));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get()).min(count).max(1);
    let parts: Result<Vec<Vec<(usize, T)>>, DataError> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut made: Vec<(usize, T)> = parts?.into_iter().flatten().collect();
    made.sort_by_key(|(number, _)| *number);
    Ok(made.into_iter().map(|(_, made)| made).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn results_come_in_order_and_the_first_failure_ends_the_work() {
        let heard = Mutex::new(Vec::new());
        let squares = on_all_cores(50, &|done| heard.lock().unwrap().push(done), |number| Ok(number * number)).unwrap();
        assert!(squares.iter().enumerate().all(|(number, &square)| square == number * number));
        let mut heard = heard.into_inner().unwrap();
        heard.sort_unstable();
        assert!(heard.into_iter().eq(1..=50));
        let failed = on_all_cores(50, &|_| {}, |number| match number {
            7 => Err(DataError::request("no")),
            _ => Ok(()),
        });
        assert!(failed.is_err());
    }
}
