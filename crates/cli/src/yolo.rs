//! The `yolo` command: prints Ultralytics' command as one of ours, and runs it.

use anyhow::Result;
use octant_recipe::ultralytics;

/// Translate Ultralytics' command line: prints the Octant command, and runs it
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant yolo detect train data=coco8.yaml model=yolo11n.pt epochs=100 imgsz=640\n  octant yolo segment train \
                        data=coco8-seg.yaml model=yolo11n-seg.yaml\n  octant \
                        yolo predict model=runs/detect-1 source=photos conf=0.4\n  octant yolo mode=val model=runs/detect-1 \
                        data=coco8.yaml\n  octant yolo help                              every setting and what it is here"
)]
pub(crate) struct Arguments {
    /// Their words: a task, a mode, and KEY=VALUE; or `help`
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    /// Print the command without running it
    #[arg(long)]
    dry_run: bool,
}

/// The words of the command to run; `None` when it was only to be printed.
pub(crate) fn command(arguments: &Arguments) -> Result<Option<Vec<String>>> {
    if arguments.words == ["help"] {
        print!("{}", ultralytics::help());
        return Ok(None);
    }
    let translation = ultralytics::translate(&arguments.words)?;
    let quoted = |word: &String| if word.contains([' ', '[', '"']) { format!("'{word}'") } else { word.clone() };
    eprintln!("octant {}", translation.command.iter().map(quoted).collect::<Vec<_>>().join(" "));
    translation.notes.iter().for_each(|note| eprintln!("note: {note}"));
    Ok((!arguments.dry_run).then_some(translation.command))
}
