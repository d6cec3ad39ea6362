//! A data set written as TFRecord files.

use super::dataset::{BOX_CLASSES, CORNERS, PATH};
use super::{Example, Feature, RecordTarget, TfRecordKeys, write_record};
use crate::encode::encode_mask;
use crate::packed::paths;
use crate::readers::{BOXES_ALONE, write_names};
use crate::{AnyImage, DataError, Dataset, Sample, Target, encode_png};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a data set as files `NAME-00000-of-00003.tfrecord` of at most `per_shard` records, images as PNG, under the usual
/// keys ([`RecordTarget::usual_key`]), and the names of classes beside them; returns the paths of the files.
pub fn write_tfrecord(
    dataset: &dyn Dataset,
    folder: &Path,
    name: &str,
    per_shard: usize,
) -> Result<Vec<PathBuf>, DataError> {
    write_names(dataset.class_names(), folder)?;
    let paths = paths(dataset);
    let per_shard = per_shard.max(1);
    let shards = dataset.len().div_ceil(per_shard);
    let mut files = Vec::new();
    for number in 0..shards {
        let path = folder.join(format!("{name}-{number:05}-of-{shards:05}.tfrecord"));
        let problem = |error| DataError::write(&path, error);
        let mut file = BufWriter::new(File::create(&path).map_err(problem)?);
        for index in number * per_shard..((number + 1) * per_shard).min(dataset.len()) {
            let example = example(&dataset.get(index)?, &paths[index]);
            let example = example.map_err(|problem| DataError::malformed(&path, problem))?;
            write_record(&mut file, &example.to_record()).map_err(problem)?;
        }
        file.flush().map_err(problem)?;
        files.push(path);
    }
    Ok(files)
}

fn example(sample: &Sample, path: &str) -> Result<Example, String> {
    let mut example = Example::default();
    let mut put = |key: &str, feature: Feature| {
        example.features.insert(key.to_string(), feature);
    };
    let encoded = |image: &AnyImage| Ok::<_, String>(Feature::Bytes(vec![encode_png(image)?]));
    put(&TfRecordKeys::default().image, encoded(&sample.image)?);
    put(PATH, Feature::Bytes(vec![path.as_bytes().to_vec()]));
    match &sample.target {
        Target::Class(class) => put(RecordTarget::Class.usual_key(), Feature::Ints(vec![i64::from(*class)])),
        Target::Labels(_) => {
            let classes = sample.target.classes().into_iter().map(i64::from).collect();
            put(RecordTarget::Labels.usual_key(), Feature::Ints(classes));
        }
        Target::Values(values) => put(RecordTarget::Values.usual_key(), Feature::Floats(values.clone())),
        Target::Mask(mask) => put(RecordTarget::Mask.usual_key(), Feature::Bytes(vec![encode_mask(mask)?])),
        Target::Image(image) => put(RecordTarget::Image.usual_key(), encoded(&AnyImage::U8(image.clone()))?),
        Target::Boxes(boxes) if boxes.iter().any(|object| !object.detail.is_none()) => return Err(BOXES_ALONE.into()),
        Target::Boxes(boxes) => {
            let [height, width, _] = sample.image.dims();
            let key = RecordTarget::Boxes.usual_key();
            let classes = boxes.iter().map(|object| i64::from(object.class)).collect();
            put(&format!("{key}/{BOX_CLASSES}"), Feature::Ints(classes));
            for (corner, name) in CORNERS.iter().enumerate() {
                let side = if corner % 2 == 0 { width } else { height } as f64;
                let values = boxes.iter().map(|object| {
                    let pixels = [object.x0, object.y0, object.x1, object.y1][corner];
                    (f64::from(pixels) / side) as f32
                });
                put(&format!("{key}/{name}"), Feature::Floats(values.collect()));
            }
        }
    }
    Ok(example)
}
