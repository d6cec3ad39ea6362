//! Recipes as tables: the built-in ones, those in files, and what overrides single keys of them.
//!
//! A recipe is a table first and a struct later: flags write into the table, then the whole is checked at once, so that a
//! misspelled key is found wherever it comes from.

use crate::error::{refusal, refuse};
use crate::{Recipe, Result};
use toml::{Table, Value};

/// The built-in recipes, the first run's first.
pub const BUILT_IN: [&str; 10] = [
    include_str!("../recipes/glyphs.toml"),
    include_str!("../recipes/fashion-mnist.toml"),
    include_str!("../recipes/mshnet-irstd.toml"),
    include_str!("../recipes/cifar100-efficientnetv2.toml"),
    include_str!("../recipes/regression-efficientnetv2.toml"),
    include_str!("../recipes/imagenet-resnet50.toml"),
    include_str!("../recipes/demo-segment.toml"),
    include_str!("../recipes/demo-finetune.toml"),
    include_str!("../recipes/demo-regression.toml"),
    include_str!("../recipes/demo-imagenet.toml"),
];

/// The table of a built-in recipe, or of a file that ends in `.toml`.
pub fn table(name: &str) -> Result<Table> {
    if name.ends_with(".toml") {
        let text = std::fs::read_to_string(name).map_err(|error| refusal!("cannot read the recipe {name}: {error}"))?;
        return text.parse().map_err(|error| refusal!("{name} is no TOML: {error}"));
    }
    let tables = BUILT_IN.iter().map(|text| text.parse::<Table>().expect("built-in recipes are TOML"));
    let mut names = Vec::new();
    for table in tables {
        let own = table["name"].as_str().unwrap_or_default().to_string();
        if own == name {
            return Ok(table);
        }
        names.push(own);
    }
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => refuse!("there is no recipe \"{name}\"; did you mean {near}? `octant recipes` lists all"),
        None => refuse!("there is no recipe \"{name}\"; there are {}", names.join(", ")),
    }
}

/// The text of a built-in recipe, comments and all.
pub fn text(name: &str) -> Option<&'static str> {
    BUILT_IN.into_iter().find(|text| text.lines().any(|line| line == format!("name = {name:?}")))
}

/// Writes a value at a dotted place, such as `phases.0.schedule.lr`.
pub fn set(table: &mut Table, place: &str, value: Value) -> Result<()> {
    let (last, path) = place
        .split('.')
        .collect::<Vec<_>>()
        .split_last()
        .map(|(l, p)| (l.to_string(), p.to_vec()))
        .expect("a split has a last part");
    let mut root = Value::Table(std::mem::take(table));
    let mut inside = &mut root;
    for part in path {
        inside = match (inside, part.parse::<usize>()) {
            (Value::Array(items), Ok(index)) => {
                let count = items.len();
                items.get_mut(index).ok_or_else(|| refusal!("{place}: there are only {count}, counted from 0"))?
            }
            (Value::Table(inner), _) => inner.entry(part).or_insert_with(|| Value::Table(Table::new())),
            _ => refuse!("{place}: {part} has nothing inside"),
        };
    }
    match inside {
        Value::Table(inner) => drop(inner.insert(last, value)),
        _ => refuse!("{place} is not a place in a recipe"),
    }
    *table = match root {
        Value::Table(table) => table,
        _ => unreachable!("the root stays a table"),
    };
    Ok(())
}

/// `KEY=VALUE` from the command line; the value is TOML, or text when it is not.
pub fn set_text(table: &mut Table, assignment: &str) -> Result<()> {
    let (place, text) = assignment.split_once('=').ok_or_else(|| refusal!("{assignment}: write KEY=VALUE"))?;
    let parsed = format!("v = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
    set(table, place.trim(), parsed.unwrap_or_else(|| Value::String(text.into())))
}

/// All recipes that come with the program.
pub fn built_in() -> impl Iterator<Item = Recipe> {
    BUILT_IN.iter().filter_map(|text| check(text.parse().ok()?).ok())
}

/// Checks a table and makes a recipe of it.
pub fn check(table: Table) -> Result<Recipe> {
    let recipe: Recipe =
        Value::Table(table).try_into().map_err(|error: toml::de::Error| refusal!("{}", explain(error.message())))?;
    if recipe.phases.is_empty() {
        refuse!("the recipe has no [[phases]]");
    }
    if let Some(mode) = recipe.best_mode.as_deref().filter(|mode| !["min", "max"].contains(mode)) {
        refuse!("best_mode = \"{mode}\" is not known; use min or max");
    }
    Ok(recipe)
}

/// Adds "did you mean" to serde's list of fields.
fn explain(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match (message.contains("unknown field"), quoted.split_first()) {
        (true, Some((wrong, known))) => match nearest(wrong, known.iter().copied()) {
            Some(near) => format!("a recipe has no key \"{wrong}\"; did you mean \"{near}\"?"),
            None => format!("a recipe has no key \"{wrong}\" there; known are {}", known.join(", ")),
        },
        _ => format!("the recipe is not complete: {message}"),
    }
}

/// The name that is spelled most alike, if any is.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&str> = names.collect();
    let ranked = names.iter().map(|name| (octant_zoo::registry::edits(wanted, name), *name)).min();
    let alike = ranked.filter(|(distance, _)| *distance <= 2 + wanted.len() / 4).map(|(_, name)| name);
    alike.or_else(|| names.into_iter().find(|name| name.contains(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Learns;

    #[test]
    fn every_built_in_recipe_is_sound_and_stays_the_same_when_written_down() {
        for text in BUILT_IN {
            let recipe = check(text.parse().unwrap()).unwrap();
            let again = check(toml::to_string(&recipe).unwrap().parse().unwrap()).unwrap();
            assert_eq!(again, recipe);
            assert!(octant_zoo::find(&recipe.model).is_ok(), "{}", recipe.model);
        }
    }

    #[test]
    fn misspelled_keys_and_names_are_answered_with_a_suggestion() {
        let mut wrong = table("glyphs").unwrap();
        set_text(&mut wrong, "batchsize=3").unwrap();
        assert!(check(wrong).unwrap_err().to_string().contains("did you mean \"batch_size\""));
        let mut wrong = table("glyphs").unwrap();
        set_text(&mut wrong, "phases.0.schedule.min_rl=3").unwrap();
        assert!(check(wrong).unwrap_err().to_string().contains("did you mean \"min_lr\""));
        assert!(table("fashion-mnst").unwrap_err().to_string().contains("did you mean fashion-mnist"));
        assert!(table("mshnet").unwrap_err().to_string().contains("did you mean mshnet-irstd"));
    }

    /// serde names all keys where it meets one that it does not know.
    #[test]
    fn every_key_is_explained() {
        let page = include_str!("../../../docs/recipes.md");
        for place in ["zzz", "data.zzz", "phases.0.zzz", "phases.0.schedule.zzz", "phases.0.mix.zzz"] {
            let mut wrong = table("glyphs").unwrap();
            set_text(&mut wrong, &format!("{place}=1")).unwrap();
            let message = Value::Table(wrong).try_into::<Recipe>().unwrap_err().message().to_string();
            let keys: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
            assert!(!keys.is_empty(), "{message}");
            for key in keys {
                assert!(page.contains(&format!("`{key}`")), "docs/recipes.md does not explain {key} of {place}");
            }
        }
    }

    #[test]
    fn flags_reach_every_depth() {
        let mut recipe = table("cifar100-efficientnetv2").unwrap();
        set_text(&mut recipe, "phases.1.schedule.lr=0.5").unwrap();
        set_text(&mut recipe, "device=cpu").unwrap();
        set_text(&mut recipe, "phases.0.train=[\"head.fc\"]").unwrap();
        let recipe = check(recipe).unwrap();
        assert_eq!((recipe.phases[1].schedule.lr, recipe.device.as_str()), (0.5, "cpu"));
        assert_eq!(recipe.phases[0].train, Learns::Paths(vec!["head.fc".into()]));
    }
}
