//! The real TensorBoard reads what is written here. `OCTANT_ORACLE_PYTHON` names a Python that has it; without one the
//! test prints that it was skipped.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_events::{Canvas, EventWriter, Histogram, Setting, Value};
use std::process::Command;

const READER: &str = r#"
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams import plugin_data_pb2
folder, path = sys.argv[1:]
run = EventAccumulator(folder, size_guidance={'scalars': 0, 'images': 0, 'histograms': 0, 'tensors': 0})
run.Reload()
for event in run.Scalars('val_loss'):
    print('scalar', event.step, repr(event.value))
image, = run.Images('predictions')
print('image', image.width, image.height, image.encoded_image_string[1:4].decode())
print('histogram', run.Histograms('weights')[0].histogram_value.num)
print('text', run.Tensors('config/text_summary')[0].tensor_proto.string_val[0].decode())
for event in EventFileLoader(path).Load():
    for value in event.summary.value:
        if value.tag.startswith('_hparams_'):
            data = plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
            start = data.session_start_info.hparams
            if start:
                print('settings', start['lr'].number_value, start['model'].string_value)
"#;

#[test]
fn the_real_tensorboard_finds_everything() {
    let Some(python) = octant_testing::oracle::python("TensorBoard reading event files") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut events = EventWriter::create(folder.path()).unwrap();
    let settings = [("lr".into(), Setting::Number(0.5)), ("model".into(), Setting::Text("tiny".into()))];
    events.settings(&settings, &["val_loss".into()]).unwrap();
    events.text("config", "a = 1").unwrap();
    (1..=2).for_each(|epoch| events.scalar(epoch, "val_loss", 0.5 / epoch as f64).unwrap());
    let png = Canvas::new(30, 20).png();
    let histogram = Value::Histogram(Histogram::of(&[0.0, 1.0, 2.0]));
    let image = Value::Image { height: 20, width: 30, png };
    events.values(2, vec![("predictions".into(), image), ("weights".into(), histogram)]).unwrap();
    events.finished(2).unwrap();
    let mut command = Command::new(python);
    let output = command.args(["-c", READER]).arg(folder.path()).arg(events.path()).output().unwrap();
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "scalar 1 0.5\nscalar 2 0.25\nimage 30 20 PNG\nhistogram 3.0\ntext a = 1\nsettings 0.5 tiny\n";
    assert_eq!(found, expected, "{}", String::from_utf8_lossy(&output.stderr));
}
