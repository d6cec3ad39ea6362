//! Libraries name keys of recipes in backquotes; the command line has flags for them.

use crate::launch;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use octant_train::options::nearest;
use std::collections::HashSet;
use std::sync::OnceLock;

/// Flags without a path in the recipe: several phases share them, or they are of the run and not of its recipe.
const LENGTHS: [&str; 5] = ["epochs", "burn_epochs", "burn_lr", "warm_epoch", "allow_changed"];

/// Arguments that the library names in its sentences about networks and exports, and that no recipe has.
const ARGUMENTS: [&str; 18] = [
    "batch",
    "checkpoint",
    "classes",
    "coco",
    "conf",
    "iou",
    "labels",
    "layout",
    "max_det",
    "only",
    "opset",
    "output",
    "partial",
    "size",
    "tile",
    "top",
    "weights_beside",
    "with_preprocessing",
];

/// The same for a sentence about what was given: a value out of a file keeps the name that it has there.
pub(crate) fn with_flags_given(sentence: &str, arguments: impl Iterator<Item = String>) -> String {
    let given: Vec<String> = arguments.collect();
    let is_given = |flag: &str| given.iter().any(|argument| argument.split('=').next() == Some(flag));
    spelled(sentence, |flag, rest| is_given(flag) || !rest.starts_with(" must be"))
}

/// An error about an unknown flag with a suggestion only where one is nearly the same. What clap suggests otherwise, such as
/// passing the flag behind `--`, leads to another error.
pub(crate) fn near_flags(
    mut error: clap::Error,
    command: &clap::Command,
    arguments: impl Iterator<Item = String>,
) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    error.remove(ContextKind::Suggested);
    error.remove(ContextKind::SuggestedArg);
    let Some(ContextValue::String(wanted)) = error.get(ContextKind::InvalidArg).cloned() else { return error };
    let inner = innermost(command, arguments);
    let names: Vec<String> = inner.get_arguments().filter_map(|flag| flag.get_long().map(str::to_string)).collect();
    let wanted = wanted.split('=').next().unwrap_or_default().trim_start_matches('-').to_string();
    if let Some(near) = nearest(&wanted, names.iter().map(String::as_str)) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{near}")));
    }
    error
}

/// Arguments that name what is written.
const OUTPUTS: [&str; 8] = ["out", "output", "dump", "plots", "to", "coco", "csv", "save_inputs"];

/// A sentence about an output at an address: it would become a folder of that name on this machine.
pub(crate) fn remote_output(matches: &clap::ArgMatches) -> Option<String> {
    let is_output = |id: &&clap::Id| OUTPUTS.contains(&id.as_str());
    for id in matches.ids().filter(is_output) {
        let values = matches.try_get_raw(id.as_str()).ok().flatten().into_iter().flatten();
        let address = values.map(|value| value.to_string_lossy()).find(|value| value.contains("://"));
        if let Some(address) = address {
            return Some(format!(
                "{address} cannot be written to: results go to a folder of this machine; write there and copy them, a run with \
                 `octant weights pack RUN FILE.tar` as one file"
            ));
        }
    }
    matches.subcommand().and_then(|(_, inner)| remote_output(inner))
}

/// The sentence with flags instead of keys: `` `batch_size = 8` `` becomes `--batch-size 8`.
pub(crate) fn with_flags(sentence: &str) -> String {
    spelled(sentence, |_, _| true)
}

/// `as_flag` says, from a flag and the text after its key, whether the flag replaces the key.
fn spelled(sentence: &str, as_flag: impl Fn(&str, &str) -> bool) -> String {
    let is_ours =
        |key: &str| LENGTHS.contains(&key) || (ARGUMENTS.contains(&key) && flags_of_this_command().contains(key));
    octant_recipe::flags::spelled(sentence, is_ours, as_flag)
}

/// The flags of the command that runs, as keys.
fn flags_of_this_command() -> &'static HashSet<String> {
    static FLAGS: OnceLock<HashSet<String>> = OnceLock::new();
    FLAGS.get_or_init(|| {
        let command = crate::Cli::command();
        let inner = innermost(&command, launch::texts());
        inner.get_arguments().filter_map(|flag| Some(flag.get_long()?.replace('-', "_"))).collect()
    })
}

/// The command that the words name.
fn innermost(command: &Command, words: impl Iterator<Item = String>) -> &Command {
    let inner = words.skip(1).try_fold(command, |command, word| command.find_subcommand(word).ok_or(command));
    inner.unwrap_or_else(|last| last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_flags_were_corrected_to_flags_that_fail_or_mean_something_else() {
        let command = clap::Command::new("octant").subcommand(
            clap::Command::new("train")
                .arg(clap::Arg::new("recipe"))
                .arg(clap::Arg::new("freeze").long("freeze"))
                .arg(clap::Arg::new("cores").long("cores")),
        );
        let printed = |flag: &str| {
            let words = ["octant", "train", flag].map(str::to_string);
            let error = command.clone().try_get_matches_from(&words).unwrap_err();
            near_flags(error, &command, words.into_iter()).to_string()
        };
        for flag in ["--freeze-backbone", "--folds"] {
            let text = printed(flag);
            assert!(text.contains(flag) && !text.contains("-- --") && !text.contains("similar"), "{text}");
        }
        assert!(printed("--frezee").contains("--freeze"), "{}", printed("--frezee"));
    }

    #[test]
    fn a_bucket_became_a_folder_called_gs() {
        let command =
            clap::Command::new("octant").subcommand(clap::Command::new("train").arg(clap::Arg::new("out").long("out")));
        let problem = |words: &[&str]| remote_output(&command.clone().try_get_matches_from(words).unwrap());
        let sentence = problem(&["octant", "train", "--out", "gs://bucket/run"]).unwrap();
        assert!(sentence.contains("gs://bucket/run cannot be written to"), "{sentence}");
        assert_eq!(problem(&["octant", "train", "--out", "runs/a"]), None);
    }

    #[test]
    fn values_out_of_files_keep_the_names_of_their_keys() {
        let spelled = |arguments: &[&str]| {
            with_flags_given("`batch_size` must be a number; see `lr`", arguments.iter().map(|word| word.to_string()))
        };
        assert_eq!(spelled(&["train", "own.toml"]), "`batch_size` must be a number; see --lr");
        assert_eq!(spelled(&["train", "--batch-size=x"]), "--batch-size must be a number; see --lr");
    }
}
