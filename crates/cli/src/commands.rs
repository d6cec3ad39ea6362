//! The hidden `commands` command: what the command line accepts, as its parser declares it, also as completions and manual pages.

use crate::Ending;
use crate::output::Json;
use anyhow::Result;
use clap::{Arg, Command};
use serde_json::json;
use std::path::PathBuf;

/// List all commands and arguments
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print one JSON object per argument
    #[arg(long)]
    json: bool,
    /// Print completions for a shell
    #[arg(long, value_name = "SHELL", conflicts_with_all = ["json", "man"])]
    completions: Option<clap_complete::Shell>,
    /// Write manual pages into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    man: Option<PathBuf>,
}

pub(crate) fn run(program: &Command, arguments: &Arguments) -> Result<Ending> {
    // Adds what the parser adds by itself, such as arguments of all commands.
    let mut program = program.clone();
    program.build();
    match (arguments.completions, &arguments.man) {
        (Some(shell), _) => clap_complete::generate(shell, &mut program, "octant", &mut std::io::stdout()),
        (None, Some(folder)) => {
            std::fs::create_dir_all(folder)?;
            clap_mangen::generate_to(program, folder)?;
        }
        (None, None) => list(&program, &[], arguments.json),
    }
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
mod tests {
    use clap::error::ErrorKind;
    use clap::{CommandFactory, Parser};
    use std::path::{Path, PathBuf};

    /// The commands that a page shows: whether it is a line to be typed, or a name inside of a sentence.
    fn commands(page: &str) -> Vec<(bool, String)> {
        let mut found = Vec::new();
        for (index, block) in page.split("```").enumerate() {
            match index % 2 {
                1 => {
                    let joined = block.replace("\\\n", " ");
                    found.extend(joined.lines().map(|line| (true, line.trim().to_string())));
                }
                _ => found.extend(block.split('`').skip(1).step_by(2).map(|text| (false, text.replace('\n', " ")))),
            }
        }
        found.retain(|(_, line)| line.starts_with("octant ") && !line.contains('…'));
        found
    }

    /// The words of a line up to its comment, or to where the shell takes over.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let (mut quote, mut is_over) = (None, false);
        for character in line.chars() {
            match (character, quote) {
                (mark, Some(open)) if mark == open => quote = None,
                ('\'' | '"', None) => quote = Some(character),
                ('#' | '>' | '|' | '&' | ';', None) => is_over = true,
                (' ', None) if is_over => break,
                (' ', None) => words.push(String::new()),
                _ => words.last_mut().unwrap().push(character),
            }
            if is_over {
                break;
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// Guides lagged behind the flags that they show.
    #[test]
    fn commands_of_the_guides_were_refused() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let guides = std::fs::read_dir(root.join("docs/guides")).unwrap().map(|entry| entry.unwrap().path());
        let pages: Vec<PathBuf> =
            guides.chain(["README.md", "docs/recipes.md", "docs/benchmarks.md"].map(|page| root.join(page))).collect();
        crate::Cli::command().debug_assert();
        let (mut count, mut wrong) = (0, Vec::new());
        for page in pages {
            for (is_line, line) in commands(&std::fs::read_to_string(&page).unwrap()) {
                count += 1;
                // Brackets mark what may be left out.
                let Err(error) = crate::Cli::try_parse_from(words(&line.replace(['[', ']'], ""))) else { continue };
                let is_partial = !is_line
                    && matches!(
                        error.kind(),
                        ErrorKind::MissingRequiredArgument
                            | ErrorKind::InvalidValue
                            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                    );
                if !is_partial && error.kind() != ErrorKind::DisplayHelp {
                    wrong.push(format!("{}: {line}: {error}", page.display()));
                }
            }
        }
        assert!(count > 100 && wrong.is_empty(), "{count} commands\n{}", wrong.join("\n"));
    }
}
