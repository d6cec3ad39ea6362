//! The `models` command.

use crate::Ending;
use crate::output::{self, Json};
use crate::style;
use anyhow::Result;
use octant_events::columns::cut;
use octant_events::units::short;
use octant_zoo::ModelEntry;
use octant_zoo::registry::matching;

/// List the models that can be trained
#[derive(clap::Args)]
#[command(
    after_help = "Multiply–adds are what papers call FLOPs, for one image of the native size. Names of timm and \
                        torchvision are understood wherever a model is named. The name of a single model shows what it is made \
                        for: how images are prepared, its other names and the license of the reference weights."
)]
pub(crate) struct Arguments {
    /// Only models whose name, alias or family contains this
    pattern: Option<String>,
    /// Print one JSON object per model
    #[arg(long)]
    json: bool,
}

/// The columns of a table that no terminal shows.
const TABLE: usize = 100;
/// The columns between a model's name and the license.
const FIGURES: usize = 32;

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let pattern = arguments.pattern.as_deref().unwrap_or_default();
    let wanted = matching(pattern)?;
    if arguments.json {
        for entry in wanted {
            let (size, mut object) = (entry.size()?, entry.json());
            object["parameters"] = size.parameters.into();
            object["multiply_adds"] = size.multiply_adds.into();
            Json::line(object);
        }
        return Ok(Ending::Done);
    }
    let has_table = wanted.len() > 1;
    if has_table {
        print_table(&wanted)?;
    }
    let named = match wanted[..] {
        [only] => Some(only),
        _ => wanted.into_iter().find(|entry| entry.names().any(|name| name == pattern)),
    };
    match named {
        Some(entry) => {
            print!("{}", if has_table { "\n" } else { "" });
            print_entry(entry)?;
        }
        None => println!("octant models NAME: how images are prepared, other names, all of the license"),
    }
    Ok(Ending::Done)
}

fn print_table(entries: &[&ModelEntry]) -> Result<()> {
    let longest = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let room = output::terminal_columns().unwrap_or(TABLE).saturating_sub(longest + FIGURES);
    println!(
        "{:<longest$} {:>8} {:>9}  {:<9}  {}",
        "model",
        "params",
        "mult–adds",
        "input",
        cut("license of the reference weights", room)
    );
    for entry in entries {
        let size = entry.size()?;
        println!(
            "{:<longest$} {:>8} {:>9}  {:<9}  {}",
            entry.name,
            short(size.parameters as f64),
            short(size.multiply_adds as f64),
            entry.preprocessing.size(),
            cut(entry.license, room),
        );
    }
    Ok(())
}

/// Everything about one model, a line each.
fn print_entry(entry: &ModelEntry) -> Result<()> {
    let size = entry.size()?;
    println!("{}", style::bold(entry.name));
    let row = |what: &str, text: String| output::line(format_args!("  {what:<15} {text}"));
    row("task", format!("{}, {} outputs", entry.task.name(), entry.classes));
    row("parameters", short(size.parameters as f64));
    row(
        "multiply–adds",
        format!("{} for an image of {}", short(size.multiply_adds as f64), entry.preprocessing.size()),
    );
    row("preparation", entry.preprocessing.text());
    if !entry.aliases.is_empty() {
        row("other names", entry.aliases.join(", "));
    }
    let has_license = !entry.license.starts_with("none");
    row("license", format!("{}{}", entry.license, if has_license { ", of the reference weights" } else { "" }));
    if let Some(published) = entry.published() {
        row("file", published.url);
    }
    Ok(())
}
