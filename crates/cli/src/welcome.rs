//! What `octant` alone prints: the first commands of somebody who has just installed it.

use crate::output::{flush, line};
use crate::style;

/// Groups of commands, with what each does.
const GROUPS: [(&str, &[(&str, &str)]); 3] = [
    ("Begin here", &[("octant train", "a first run, in less than a minute")]),
    (
        "With images of yours",
        &[
            ("octant train classify --data DIR", "a folder per class"),
            ("octant train detect --data DIR", "boxes, as YOLO, COCO or VOC have them"),
            ("octant train segment --data DIR", "images/ and masks/"),
            ("octant recipes", "everything that can be trained"),
        ],
    ),
    (
        "With what a run leaves",
        &[
            ("octant board runs", "curves and images in a browser"),
            ("octant predict runs/classify-1 IMAGES", "classes, boxes or masks of images"),
            ("octant eval runs/classify-1 --data DIR", "its metrics on other data"),
            ("octant export runs/classify-1", "a file for other runtimes"),
        ],
    ),
];

/// Prints it.
pub(crate) fn show() {
    line("Octant trains, evaluates and ships vision models on CPUs, GPUs and TPUs.");
    let commands = GROUPS.iter().flat_map(|(_, commands)| commands.iter());
    let longest = commands.map(|(command, _)| command.len()).max().unwrap_or(0);
    for (title, commands) in GROUPS {
        line(format_args!("\n{}", style::bold(title)));
        for (command, about) in commands {
            let gap = longest - command.len();
            line(format_args!("  {}{:gap$}  {about}", style::command(command), ""));
        }
    }
    line(
        "\n`octant devices` lists what there is to train on, `octant help` all commands;\n`octant COMMAND --help` explains one.",
    );
    flush();
}
