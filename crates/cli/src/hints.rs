//! Libraries name keys of recipes in backquotes; the command line has flags for them.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use octant_recipe::flags::flags;
use octant_train::options::nearest;

/// Flags without a path in the recipe: several phases share them, or they are of the run and not of its recipe.
const LENGTHS: [&str; 5] = ["epochs", "burn_epochs", "burn_lr", "warm_epoch", "allow_changed"];

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
    let inner = arguments.skip(1).try_fold(command, |command, word| command.find_subcommand(word).ok_or(command));
    let inner = inner.unwrap_or_else(|last| last);
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
    let known = flags();
    let flag = |key: &str| -> Option<String> {
        // A flag reaches all phases, so their numbers do not matter; a key may be named without what it lies in.
        let parts = key.split('.').map(|part| if part.parse::<usize>().is_ok() { "*" } else { part });
        let key = parts.collect::<Vec<_>>().join(".");
        let same = |key_path: &str| key_path == key || key_path.ends_with(&format!(".{key}"));
        let found = known.iter().find(|known| same(&known.key_path)).and_then(|known| known.spec.flag.as_ref());
        let length = LENGTHS.iter().find(|length| ***length == *key).map(|length| length.replace('_', "-"));
        found.map(|flag| flag.name.clone()).or(length).map(|name| format!("--{name}"))
    };
    let mut spelled = String::new();
    let parts: Vec<&str> = sentence.split('`').collect();
    for (number, part) in parts.iter().enumerate() {
        let (key, value) = part.split_once(" = ").map_or((*part, None), |(key, value)| (key, Some(value)));
        let rest = parts.get(number + 1).copied().unwrap_or_default();
        let named = if number % 2 == 1 { flag(key).filter(|flag| as_flag(flag, rest)) } else { None };
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
    fn keys_become_flags_where_there_are_any() {
        let spelled = with_flags("`batch_size = 8` or `cache = \"ram\"` fits; `data.dir`, not `nonsense`");
        assert_eq!(spelled, "--batch-size 8 or --cache ram fits; --data, not `nonsense`");
        assert_eq!(with_flags("`phases.1.schedule.lr` and `schedule.min_lr`"), "--lr and --min-lr");
        assert_eq!(with_flags("`phases.0.schedule.patience`"), "`phases.0.schedule.patience`", "that of a plateau");
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
