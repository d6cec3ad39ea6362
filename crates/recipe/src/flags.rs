//! Which flags set which keys. A command line declares its flags from [`flags`] and writes what it was given with [`apply`].

use crate::error::refusal;
use crate::{Recipe, Result, set};
use octant_train::options::{OptionSpec, OptionTable};
use toml::{Table, Value};

/// A key that has a flag.
pub struct FlaggedKey {
    /// The dotted path of the key; `*` stands for every phase: `phases.*.schedule.lr`.
    pub key_path: String,
    /// What is known about it.
    pub spec: OptionSpec,
}

/// The phase whose rate and length have flags of their own.
pub const BURN_IN: &str = "burn-in";

/// All keys that have a flag, in the order of the documentation.
pub fn flags() -> Vec<FlaggedKey> {
    let mut found = Vec::new();
    collect(Recipe::specs(), "", &mut found);
    found
}

fn collect(specs: Vec<OptionSpec>, key_path: &str, found: &mut Vec<FlaggedKey>) {
    for mut spec in specs {
        let key = format!("{key_path}{}", spec.key);
        let inner = std::mem::take(&mut spec.inner);
        let below = format!("{key}{}", if spec.is_list { ".*." } else { "." });
        if spec.flag.is_some() {
            found.push(FlaggedKey { key_path: key, spec });
        }
        collect(inner, &below, found);
    }
}

/// Writes a value at a dotted path; `*` reaches all phases. The learning rate of a burn-in is not that of the other phases.
pub fn apply(table: &mut Table, key_path: &str, value: Value) -> Result<()> {
    let Some((list, rest)) = key_path.split_once(".*.") else { return set(table, key_path, value) };
    let is_burn_in = |item: &Value| item.get("name").and_then(Value::as_str) == Some(BURN_IN);
    let items = table.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    for (number, _) in items.iter().enumerate().filter(|(_, item)| rest != "schedule.lr" || !is_burn_in(item)) {
        set(table, &format!("{list}.{number}.{rest}"), value.clone())?;
    }
    Ok(())
}

/// Lengths and rates that reach several phases at once.
#[derive(Debug, Clone, Default)]
pub struct PhaseLengths {
    /// Epochs of all phases but the burn-in.
    pub epochs: Option<u64>,
    /// Epochs of the burn-in.
    pub burn_epochs: Option<u64>,
    /// The learning rate of the burn-in.
    pub burn_lr: Option<f64>,
    /// The last epoch of a warm-up phase, counted from 0.
    pub warm_epoch: Option<u64>,
}

/// Writes them into the phases. What warm-up takes away is missing in the last phase; burn-in is counted separately.
pub fn apply_lengths(table: &mut Table, lengths: &PhaseLengths) -> Result<()> {
    let phases = table.get("phases").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_burn_in = |phase: &Value| phase.get("name").and_then(Value::as_str) == Some(BURN_IN);
    let is_warm_up = |phase: &Value| phase.get("warm_up").and_then(Value::as_bool) == Some(true);
    for (key, is_given, is_there) in [
        ("burn_epochs", lengths.burn_epochs.is_some(), phases.iter().any(is_burn_in)),
        ("burn_lr", lengths.burn_lr.is_some(), phases.iter().any(is_burn_in)),
        ("warm_epoch", lengths.warm_epoch.is_some(), phases.iter().any(is_warm_up)),
    ] {
        if is_given && !is_there {
            return Err(refusal!("`{key}` is for recipes that have such a phase, and this one has none"));
        }
    }
    let mut left = lengths.epochs;
    let last = phases.len().saturating_sub(1);
    for (index, phase) in phases.iter().enumerate() {
        let of_phase = |key: &str| format!("phases.{index}.{key}");
        // What is not a length stays as it is, and is refused when the recipe is checked.
        let written = phase.get("epochs").and_then(Value::as_integer).and_then(|epochs| u64::try_from(epochs).ok());
        let Some(mut epochs) = written else { continue };
        if is_warm_up(phase) {
            epochs = lengths.warm_epoch.map_or(epochs, |last| last + 1);
        }
        if is_burn_in(phase) {
            epochs = lengths.burn_epochs.unwrap_or(epochs);
            if let Some(rate) = lengths.burn_lr {
                set(table, &of_phase("schedule.lr"), Value::Float(rate))?;
            }
        } else if let Some(left) = &mut left {
            epochs = if index == last { *left } else { epochs.min(*left) };
            *left -= epochs;
        }
        set(table, &of_phase("epochs"), Value::Integer(epochs as i64))?;
    }
    Ok(())
}

/// A sentence of the library for a command line: keys in backquotes become flags, `` `batch_size = 8` `` becomes `--batch-size 8`.
/// `is_ours` are keys outside of recipes that are flags of their own name; `as_flag` says, from a flag and the text after its key,
/// whether the flag replaces the key.
pub fn spelled(sentence: &str, is_ours: impl Fn(&str) -> bool, as_flag: impl Fn(&str, &str) -> bool) -> String {
    let known = flags();
    let flag = |key: &str| -> Option<String> {
        // A flag reaches all phases, so their numbers do not matter; a key may be named without what it lies in.
        let parts = key.split('.').map(|part| if part.parse::<usize>().is_ok() { "*" } else { part });
        let path = parts.collect::<Vec<_>>().join(".");
        let same = |key_path: &str| key_path == path || key_path.ends_with(&format!(".{path}"));
        let found = known.iter().find(|known| same(&known.key_path)).and_then(|known| known.spec.flag.as_ref());
        let ours = is_ours(key).then(|| key.replace('_', "-"));
        found.map(|flag| flag.name.clone()).or(ours).map(|name| format!("--{name}"))
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
    use crate::{check, table};

    #[test]
    fn keys_become_flags_where_there_are_any() {
        let with_flags = |sentence: &str| spelled(sentence, |key| key == "max_det", |_, _| true);
        let text = with_flags("`batch_size = 8` or `cache = \"ram\"` fits; `data.dir`, not `nonsense`");
        assert_eq!(text, "--batch-size 8 or --cache ram fits; --data, not `nonsense`");
        assert_eq!(with_flags("`phases.1.schedule.lr` and `schedule.min_lr`"), "--lr and --min-lr");
        assert_eq!(with_flags("`phases.0.schedule.patience`"), "`phases.0.schedule.patience`", "that of a plateau");
        assert_eq!(with_flags("`max_det` is no key of a recipe"), "--max-det is no key of a recipe");
    }

    #[test]
    fn every_flag_has_a_name_of_its_own() {
        let mut names: Vec<String> =
            flags().iter().filter_map(|key| Some(key.spec.flag.as_ref()?.name.clone())).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count > 25, "{names:?}");
    }

    #[test]
    fn a_rate_reaches_all_phases_but_the_burn_in() {
        let mut recipe = table("cifar100-efficientnetv2").unwrap();
        apply(&mut recipe, "phases.*.schedule.lr", Value::Float(0.5)).unwrap();
        apply(&mut recipe, "phases.*.accumulate", Value::Integer(2)).unwrap();
        apply_lengths(&mut recipe, &PhaseLengths { epochs: Some(7), burn_lr: Some(0.25), ..PhaseLengths::default() })
            .unwrap();
        let phases = check(recipe).unwrap().phases;
        let found = phases.iter().map(|phase| (phase.epochs, phase.schedule.lr, phase.options.accumulate));
        assert_eq!(found.collect::<Vec<_>>(), [(10, 0.25, 2), (7, 0.5, 2)]);
    }

    #[test]
    fn what_warm_up_takes_away_is_missing_in_the_last_phase() {
        let mut recipe = table("mshnet-irstd").unwrap();
        let lengths = PhaseLengths { epochs: Some(10), warm_epoch: Some(2), ..PhaseLengths::default() };
        apply_lengths(&mut recipe, &lengths).unwrap();
        let epochs: Vec<u64> = check(recipe).unwrap().phases.iter().map(|phase| phase.epochs).collect();
        assert_eq!(epochs, [3, 7]);
    }

    #[test]
    fn flags_for_phases_that_a_recipe_lacks_are_refused() {
        for (lengths, key) in [
            (PhaseLengths { burn_epochs: Some(1), ..PhaseLengths::default() }, "burn_epochs"),
            (PhaseLengths { burn_lr: Some(0.1), ..PhaseLengths::default() }, "burn_lr"),
            (PhaseLengths { warm_epoch: Some(1), ..PhaseLengths::default() }, "warm_epoch"),
        ] {
            let error = apply_lengths(&mut table("glyphs").unwrap(), &lengths).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
