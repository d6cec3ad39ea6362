//! Libraries name keys of recipes in backquotes; the command line has flags for them.

use octant_recipe::flags::flags;

/// Flags without a path in the recipe: several phases share them, or they are of the run and not of its recipe.
const LENGTHS: [&str; 5] = ["epochs", "burn_epochs", "burn_lr", "warm_epoch", "allow_changed"];

/// The same for a sentence about what was given: a value out of a file keeps the name that it has there.
pub(crate) fn with_flags_given(sentence: &str, arguments: impl Iterator<Item = String>) -> String {
    let given: Vec<String> = arguments.collect();
    let is_given = |flag: &str| given.iter().any(|argument| argument.split('=').next() == Some(flag));
    spelled(sentence, |flag, rest| is_given(flag) || !rest.starts_with(" must be"))
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
