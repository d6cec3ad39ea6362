//! The `recipes` command.

use crate::Ending;
use crate::output::Json;
use anyhow::{Result, bail};
use octant_recipe::{BUILT_IN, check, table, text};
use octant_train::options::OptionTable;
use serde_json::json;

/// List the recipes, or show one
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// `show NAME` prints the recipe; without it, all are listed
    #[arg(num_args = 0..=2, value_names = ["show", "NAME"])]
    words: Vec<String>,
    /// Print one JSON object per recipe
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let words: Vec<&str> = arguments.words.iter().map(String::as_str).collect();
    match words[..] {
        [] => {
            for text in BUILT_IN {
                let recipe = check(text.parse()?)?;
                match arguments.json {
                    true => Json::line(
                        json!({ "event": "recipe", "name": recipe.name, "about": recipe.about, "task": recipe.task, "model": recipe.model }),
                    ),
                    false => println!("{:<28} {}", recipe.name, recipe.about),
                }
            }
        }
        ["show", name] | [name] => {
            let table = table(name)?;
            match arguments.json {
                true => Json::line(serde_json::to_value(check(table)?.to_table())?),
                false => print!("{}", text(name).map_or_else(|| table.to_string(), str::to_string)),
            }
        }
        _ => bail!("use `octant recipes`, or `octant recipes NAME` for one of them"),
    }
    Ok(Ending::Done)
}
