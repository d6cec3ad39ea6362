//! The `models` command.

use crate::Ending;
use crate::output::Json;
use anyhow::Result;
use octant_events::units::short;
use octant_zoo::registry::matching;
use octant_zoo::{ModelEntry, ModelSize};

/// List the models that can be trained
#[derive(clap::Args)]
#[command(
    after_help = "Multiply–adds are what papers call FLOPs, for one image of the native size. Names of timm and \
                        torchvision are understood wherever a model is named."
)]
pub(crate) struct Arguments {
    /// Only models whose name, alias or family contains this
    pattern: Option<String>,
    /// Print one JSON object per model
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let wanted = matching(arguments.pattern.as_deref().unwrap_or_default())?;
    if !arguments.json {
        let (name, input) = ("model", "input");
        println!(
            "{name:<24} {:>8} {:>9}  {input:<9}  preparation of images; license of the reference weights",
            "params", "mult–adds"
        );
    }
    for entry in wanted {
        let size = entry.size()?;
        match arguments.json {
            true => {
                let mut object = entry.json();
                object["parameters"] = size.parameters.into();
                object["multiply_adds"] = size.multiply_adds.into();
                Json::line(object);
            }
            false => println!("{}", line(entry, &size)),
        }
    }
    Ok(Ending::Done)
}

fn line(entry: &ModelEntry, size: &ModelSize) -> String {
    let preprocessing = &entry.preprocessing;
    let [height, width, channels] = preprocessing.input;
    let triple = |values: [f64; 3]| match values {
        [first, second, third] if first == second && second == third => format!("{first}"),
        _ => values.map(|value| value.to_string()).join(" "),
    };
    let input = format!("{height}×{width}×{channels}");
    let prepared = match preprocessing.range == 255.0 {
        true => "values 0 to 255 as they are".to_string(),
        false => format!(
            "{}, crop {:.3}, mean {}, deviation {}",
            preprocessing.interpolation.name(),
            preprocessing.crop,
            triple(preprocessing.mean),
            triple(preprocessing.deviation),
        ),
    };
    format!(
        "{:<24} {:>8} {:>9}  {input:<9}  {prepared}; {}",
        entry.name,
        short(size.parameters as f64),
        short(size.multiply_adds as f64),
        entry.license,
    )
}
