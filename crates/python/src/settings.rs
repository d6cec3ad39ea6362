//! Settings of a run by keyword: keys of recipes, the flags of `octant train`, and lengths that several phases share.

use crate::error::refused;
use crate::value::to_toml;
use octant_recipe::flags::{FlaggedKey, PhaseLengths, apply, apply_lengths, flags};
use octant_recipe::{Recipe, RecipeReader, nearest};
use octant_run::TrainJob;
use octant_train::options::OptionTable;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::Path;
use toml::{Table, Value};

/// Settings that reach several phases at once.
const LENGTHS: [&str; 4] = ["epochs", "burn_epochs", "burn_lr", "warm_epoch"];

/// The names that a flag has as an argument of Python.
fn names(key: &FlaggedKey) -> impl Iterator<Item = String> {
    let flag = key.spec.flag.as_ref();
    let names = flag.into_iter().flat_map(|flag| [Some(flag.name.as_str()), flag.alias].into_iter().flatten());
    names.map(|name| name.replace('-', "_"))
}

/// Where a setting stands in the recipe, such as `phases.*.mix.mixup`.
pub(crate) fn position(name: &str) -> String {
    let flagged = flags().into_iter().find(|key| names(key).any(|own| own == name));
    flagged.map_or_else(|| name.to_string(), |key| key.key_path)
}

/// The job of a recipe, a recipe's file, or a run that is there, with these settings.
pub(crate) fn job(recipe: &str, settings: &Bound<PyDict>, run_options: &[&str]) -> PyResult<TrainJob> {
    let (mut table, is_run) = octant_recipe::recipe_or_run(recipe).map_err(refused)?;
    let usual = table.get("batch_size").and_then(|size| usize::try_from(size.as_integer()?).ok());
    write(settings, &mut table, run_options, None)?;
    let job = TrainJob::from_table(table, usual).map_err(refused)?;
    Ok(if is_run { job.in_directory(Path::new(recipe)) } else { job })
}

/// Writes settings into a recipe's table. Lengths and flags come first, as on a command line; single keys have the last word. Those
/// that a reader other than training ignores are refused.
pub(crate) fn write(
    settings: &Bound<PyDict>,
    table: &mut Table,
    others: &[&str],
    reader: Option<RecipeReader>,
) -> PyResult<()> {
    let check = |position: &str| reader.map_or(Ok(()), |reader| reader.refuse_unread(position)).map_err(refused);
    let flags = flags();
    let keys: Vec<&str> = Recipe::specs().iter().map(|spec| spec.key).collect();
    let (mut lengths, mut single) = (PhaseLengths::default(), Vec::new());
    for (name, value) in settings {
        let name: String = name.extract()?;
        let value = to_toml(&value, &name)?;
        if LENGTHS.contains(&name.as_str()) {
            check("phases")?;
            set_length(&mut lengths, &name, &value)?;
        } else if let Some(key) = flags.iter().find(|key| names(key).any(|own| own == name)) {
            let value = match &value {
                Value::String(text) => (key.spec.from_text)(text),
                value => value.clone(),
            };
            check(&key.key_path)?;
            apply(table, &key.key_path, value).map_err(refused)?;
        } else if name.contains('.') || keys.contains(&name.as_str()) {
            check(&name)?;
            single.push((name, value));
        } else {
            let known: Vec<String> = flags.iter().flat_map(names).collect();
            let all = known.iter().map(String::as_str).chain(LENGTHS).chain(keys).chain(others.iter().copied());
            return Err(refused(match nearest(&name, all) {
                Some(near) => format!("there is no setting `{name}`; did you mean `{near}`?"),
                None => format!("there is no setting `{name}`; docs/recipes.md lists all keys"),
            }));
        }
    }
    apply_lengths(table, &lengths).map_err(refused)?;
    single.into_iter().try_for_each(|(key, value)| octant_recipe::set(table, &key, value)).map_err(refused)
}

fn set_length(lengths: &mut PhaseLengths, name: &str, value: &Value) -> PyResult<()> {
    let whole = || {
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| refused(format!("`{name}` must be a whole number, not {value}")))
    };
    match name {
        "epochs" => lengths.epochs = Some(whole()?),
        "burn_epochs" => lengths.burn_epochs = Some(whole()?),
        "warm_epoch" => lengths.warm_epoch = Some(whole()?),
        _ => {
            let rate = value.as_float().or(value.as_integer().map(|number| number as f64));
            lengths.burn_lr = Some(rate.ok_or_else(|| refused(format!("`{name}` must be a number, not {value}")))?);
        }
    }
    Ok(())
}
