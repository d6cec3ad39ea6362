//! Libraries name keys of recipes in backquotes; whoever sits at a terminal has flags for them.

use crate::Cli;
use clap::{Arg, CommandFactory};

/// The sentence with flags in the place of keys: `` `batch_size = 8` `` becomes `--batch-size 8`.
pub(crate) fn with_flags(sentence: &str) -> String {
    let command = Cli::command();
    let train = command.find_subcommand("train").expect("there is a command train");
    let flag = |key: &str| -> Option<String> {
        let id = if key == "data.dir" { "data" } else { key.rsplit('.').next().unwrap_or(key) };
        let flag = train.get_arguments().find(|argument| argument.get_id() == id).and_then(Arg::get_long)?;
        Some(format!("--{flag}"))
    };
    let mut spelled = String::new();
    for (number, part) in sentence.split('`').enumerate() {
        let (key, value) = part.split_once(" = ").map_or((part, None), |(key, value)| (key, Some(value)));
        let named = if number % 2 == 1 { flag(key) } else { None };
        match (named, value) {
            (Some(flag), Some("true") | None) => spelled += &flag,
            (Some(flag), Some(value)) => spelled += &format!("{flag} {}", value.trim_matches('"')),
            (None, _) if number % 2 == 1 => spelled += &format!("`{part}`"),
            (None, _) => spelled += part,
        }
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_flags_where_there_are_any() {
        let spelled = with_flags("`batch_size = 8` or `cache = \"ram\"` fits; `data.dir`, not `nonsense`");
        assert_eq!(spelled, "--batch-size 8 or --cache ram fits; --data, not `nonsense`");
    }
}
