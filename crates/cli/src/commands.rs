//! The hidden `commands` command: what the command line accepts, as its parser declares it.

use crate::Ending;
use crate::output::Json;
use anyhow::Result;
use clap::{Arg, Command};
use serde_json::json;

/// List all commands and arguments
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print one JSON object per argument
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(program: &Command, arguments: &Arguments) -> Result<Ending> {
    // Adds what the parser adds by itself, such as arguments of all commands.
    let mut program = program.clone();
    program.build();
    list(&program, &[], arguments.json);
    Ok(Ending::Done)
}

fn list(command: &Command, above: &[&str], as_json: bool) {
    for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
        let path = [above, &[command.get_name()]].concat();
        command.get_arguments().filter(|argument| argument.get_id() != "help").for_each(|argument| {
            show(&path.join(" "), argument, as_json);
        });
        list(command, &path, as_json);
    }
}

fn show(command: &str, argument: &Arg, as_json: bool) {
    let name = match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().to_string(),
    };
    let takes_value = argument.get_action().takes_values();
    // The key of a recipe that a flag sets.
    let key = argument.get_id().as_str().strip_prefix("recipe.");
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    match as_json {
        true => Json::line(json!({
            "event": "argument", "command": command, "argument": name, "key": key, "takes_value": takes_value,
            "aliases": argument.get_all_aliases().unwrap_or_default(), "is_hidden": argument.is_hide_set(), "help": help,
        })),
        false => println!("{command} {name}  {help}"),
    }
}
