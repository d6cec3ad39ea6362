//! What a run leaves behind is found by the real TensorBoard: every scalar of `metrics.csv`, the image of predictions,
//! histograms, the configuration, the table of settings. `OCTANT_ORACLE_PYTHON` names a Python that has it.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod runs;

use octant_events::read_table;
use runs::{finish, train};
use std::process::Command;

const READER: &str = r#"
import glob, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams import plugin_data_pb2
run = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0, 'images': 0, 'histograms': 0, 'tensors': 0})
run.Reload()
tags = run.Tags()
for tag in tags['scalars']:
    for event in run.Scalars(tag):
        print('scalar', tag, event.step, '%.9g' % event.value)
for tag in tags['images']:
    for image in run.Images(tag):
        print('image', tag, image.width > 100, image.encoded_image_string[1:4].decode())
for tag in tags['histograms']:
    for event in run.Histograms(tag):
        print('histogram', tag, event.step, int(event.histogram_value.num))
for tag in tags['tensors']:
    print('text', tag, 'seed = ' in run.Tensors(tag)[0].tensor_proto.string_val[0].decode())
for path in glob.glob(sys.argv[1] + '/events*'):
    for event in EventFileLoader(path).Load():
        for value in event.summary.value:
            if value.tag.startswith('_hparams_'):
                data = plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
                for name, setting in sorted(data.session_start_info.hparams.items()):
                    print('setting', name, setting.string_value or setting.number_value)
                for metric in data.experiment.metric_infos:
                    print('metric', metric.name.tag)
                if data.HasField('session_end_info'):
                    print('ended', data.session_end_info.status)
"#;

#[test]
fn everything_a_run_writes_is_found_by_tensorboard() {
    let Some(python) = octant_testing::oracle::python("TensorBoard reading a run") else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command = train(&run);
    command.args(["--histograms", "2", "--lr", "0.002"]);
    finish(command);
    let output = Command::new(python).args(["-c", READER]).arg(&run).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<&str> = text.lines().collect();
    let has = |line: &str| assert!(found.contains(&line), "{line:?} should be in\n{text}");

    let (columns, rows) = read_table(&run.join("metrics.csv")).unwrap();
    assert_eq!(rows.len(), 4);
    for (name, column) in columns.iter().enumerate().skip(3).map(|(position, name)| (name, position)) {
        for row in &rows {
            // TensorBoard keeps scalars in single precision.
            let prefix = format!("scalar {name} {} ", row[0]);
            let line = found.iter().find_map(|line| line.strip_prefix(&prefix));
            let value: f64 = line.unwrap_or_else(|| panic!("no {prefix}in\n{text}")).parse().unwrap();
            assert!((value - row[column]).abs() <= 1e-6 * row[column].abs(), "{prefix}is {value}, not {}", row[column]);
        }
    }
    has("image best/predictions True PNG");
    for epoch in [2, 4] {
        let wanted = format!(" {epoch} ");
        for kind in ["histogram weights/", "histogram gradients/"] {
            let count = found.iter().filter(|line| line.starts_with(kind) && line.contains(&wanted)).count();
            assert_eq!(count, 4, "two layers with a weight and a bias each:\n{text}");
        }
    }
    has("text config/text_summary True");
    has("setting lr 0.002");
    has("setting model fashion-cnn-tiny");
    has("setting batch_size 16.0");
    has("metric val_accuracy");
    has("ended 1");
}
