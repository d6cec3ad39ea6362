//! Images made of images: any size, in tiles where it is large.

use super::files::Failed;
use super::tiles::Tiling;
use super::{Arguments, Asked};
use crate::Ending;
use crate::output::Json;
use anyhow::{Context, Result, bail};
use octant_data::decode::{Channels, DecodeOptions, read_image};
use octant_data::write_png_u8;
use octant_imaging::Image;
use octant_runtime::CompileOptions;
use octant_tensor::HostTensor;
use octant_train::Predictor;
use octant_train::step::{StepOptions, StepPlan};
use serde_json::json;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Writes what the network makes of every file, under its name.
pub(super) fn ask(asked: &Asked, files: &[(PathBuf, PathBuf)], arguments: &Arguments) -> Result<Ending> {
    let recipe = &asked.recipe;
    let (model, entry) = octant_recipe::model(recipe, asked.outputs)?;
    let backend = arguments.device.open()?;
    let folder = arguments.output.clone().unwrap_or_else(|| asked.folder.clone());
    // A program per size of tiles; the images of a folder mostly share one.
    let mut programs: HashMap<[usize; 2], Predictor> = HashMap::new();
    let mut failed = Failed::new(arguments.json);
    if !arguments.json {
        println!("path,height,width,made");
    }
    for (path, name) in files {
        let answered = (|| {
            let image = read(path, entry.preprocessing.input[2])?;
            let size = [image.height(), image.width()];
            let tiling = Tiling::new(size, arguments.tile, model.multiple());
            if let std::collections::hash_map::Entry::Vacant(vacant) = programs.entry(tiling.tile) {
                let dims = [tiling.tile[0], tiling.tile[1], image.channels()];
                let task = octant_recipe::task(recipe, asked.outputs, dims, false)?;
                let step = StepOptions { batch_size: 1, ..recipe.step.clone() };
                let plan = StepPlan { step, ..StepPlan::new(task.clone(), 1) };
                vacant.insert(Predictor::new(&backend, &plan, &CompileOptions::default(), &asked.values)?);
            }
            let predictor = &programs[&tiling.tile];
            let made = tiling.run(&image, model.enlarges(), |tile| predicted(predictor, tile))?;
            write(&folder, name, path, &made, arguments.json)
        })();
        failed.note(path, answered);
    }
    failed.ending(files.len())
}

fn read(path: &Path, channels: usize) -> Result<Image<u8>> {
    let channels = if channels == 1 { Channels::Gray } else { Channels::Rgb };
    let options = DecodeOptions { channels, eight_bits: true, ..DecodeOptions::default() };
    Ok(read_image(path, &options)?.to_u8())
}

fn predicted(predictor: &Predictor, tile: &Image<u8>) -> Result<Image<u8>> {
    let [height, width, channels] = tile.dims();
    let made = predictor.predict(&HostTensor::new([1, height, width, channels], tile.values())?)?;
    let &[1, height, width, channels] = made.dims() else { bail!("the network makes {}, no image", made.shape()) };
    let values = made.elements::<u8>()?.to_vec();
    Image::new(height, width, channels, values).context("the network makes no image")
}

fn write(folder: &Path, name: &Path, path: &Path, made: &Image<u8>, json: bool) -> Result<()> {
    let target = folder.join(format!("{}.png", name.display()));
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot write to {}", parent.display()))?;
    }
    write_png_u8(&target, made)?;
    match json {
        true => Json::line(json!({ "path": path, "height": made.height(), "width": made.width(), "made": target })),
        false => println!("{},{},{},{}", path.display(), made.height(), made.width(), target.display()),
    }
    Ok(())
}
