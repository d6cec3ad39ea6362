//! Recipes as tables: the built-in ones, those in files, and what overrides single keys of them.
//!
//! A recipe is a table first and a struct later: flags write into the table, then the whole is checked at once, so that a
//! misspelled key is found wherever it comes from.

use crate::error::{refusal, refuse};
use crate::{Recipe, Result, auto};
use octant_train::options::{OptionTable, nearest, parsed};
use toml::{Table, Value};

/// The built-in recipes, the first run's first.
pub const BUILT_IN: [&str; 35] = [
    include_str!("../recipes/glyphs.toml"),
    include_str!("../recipes/classify.toml"),
    include_str!("../recipes/multilabel.toml"),
    include_str!("../recipes/segment.toml"),
    include_str!("../recipes/regress.toml"),
    include_str!("../recipes/detect.toml"),
    include_str!("../recipes/instance.toml"),
    include_str!("../recipes/pose.toml"),
    include_str!("../recipes/obb.toml"),
    include_str!("../recipes/rtdetrv2.toml"),
    include_str!("../recipes/dfine.toml"),
    include_str!("../recipes/vit-finetune.toml"),
    include_str!("../recipes/dinov2-finetune.toml"),
    include_str!("../recipes/pix2pix.toml"),
    include_str!("../recipes/cyclegan.toml"),
    include_str!("../recipes/restore.toml"),
    include_str!("../recipes/autoencode.toml"),
    include_str!("../recipes/fashion-mnist.toml"),
    include_str!("../recipes/mshnet-irstd.toml"),
    include_str!("../recipes/cifar100-efficientnetv2.toml"),
    include_str!("../recipes/regression-efficientnetv2.toml"),
    include_str!("../recipes/imagenet-resnet50.toml"),
    include_str!("../recipes/demo-segment.toml"),
    include_str!("../recipes/demo-semantic.toml"),
    include_str!("../recipes/demo-detect.toml"),
    include_str!("../recipes/demo-instance.toml"),
    include_str!("../recipes/demo-pose.toml"),
    include_str!("../recipes/demo-obb.toml"),
    include_str!("../recipes/demo-track.toml"),
    include_str!("../recipes/demo-pix2pix.toml"),
    include_str!("../recipes/demo-restore.toml"),
    include_str!("../recipes/demo-finetune.toml"),
    include_str!("../recipes/demo-multilabel.toml"),
    include_str!("../recipes/demo-regression.toml"),
    include_str!("../recipes/demo-imagenet.toml"),
];

/// The table of the recipe of that name, or of one for the model of that name.
pub fn table_or_model(name: &str) -> Result<Table> {
    match table(name) {
        Err(_) if !name.ends_with(".toml") => {
            let entry = octant_zoo::find(name)
                .map_err(|error| refusal!("\"{name}\" is neither a recipe nor a model: {error}"))?;
            Ok(crate::of_model(entry)?.to_table())
        }
        table => table,
    }
}

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

/// Writes a value at a dotted path, such as `phases.0.schedule.lr`.
pub fn set(table: &mut Table, key_path: &str, value: Value) -> Result<()> {
    let parts: Vec<&str> = key_path.split('.').collect();
    let (&key, parents) = parts.split_last().expect("a split has a last part");
    let inner = table_at(table, parents, key_path)?;
    if key == "optimizer" {
        auto::choose_optimizer(inner, value);
    } else {
        inner.insert(key.to_string(), value);
    }
    if let Some(phase) = key_path.strip_suffix(".schedule.lr") {
        auto::keep_rate(table, phase);
    }
    Ok(())
}

/// The value at a dotted path, if it is there.
pub(crate) fn get<'a>(table: &'a Table, key_path: &str) -> Option<&'a Value> {
    let (key, rest) = key_path.split_once('.').map_or((key_path, None), |(key, rest)| (key, Some(rest)));
    let mut found = table.get(key)?;
    for part in rest.into_iter().flat_map(|rest| rest.split('.')) {
        found = match found {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
            found => found.get(part)?,
        };
    }
    Some(found)
}

/// The table that a path leads to, made where it is missing. Numbers are indices into arrays.
fn table_at<'a>(table: &'a mut Table, path: &[&str], key_path: &str) -> Result<&'a mut Table> {
    let Some((&part, rest)) = path.split_first() else { return Ok(table) };
    match (table.entry(part).or_insert_with(|| Value::Table(Table::new())), rest) {
        (Value::Table(inner), rest) => table_at(inner, rest, key_path),
        (Value::Array(items), [index, rest @ ..]) => {
            let index: usize = index.parse().map_err(|_| refusal!("{key_path}: {index} has nothing inside"))?;
            let count = items.len();
            match items.get_mut(index) {
                Some(Value::Table(inner)) => table_at(inner, rest, key_path),
                Some(_) => refuse!("{key_path} is not a key of a recipe"),
                None => refuse!("{key_path}: there are only {count}, counted from 0"),
            }
        }
        (_, [next, ..]) => refuse!("{key_path}: {next} has nothing inside"),
        (_, []) => refuse!("{key_path} is not a key of a recipe"),
    }
}

/// Writes `KEY=VALUE`; the value is TOML, or text when it is not.
pub fn set_text(table: &mut Table, assignment: &str) -> Result<()> {
    let (key_path, text) = assignment.split_once('=').ok_or_else(|| refusal!("{assignment}: write KEY=VALUE"))?;
    set(table, key_path.trim(), parsed(text))
}

/// All recipes that come with the program.
pub fn built_in() -> impl Iterator<Item = Recipe> {
    BUILT_IN.iter().filter_map(|text| check(text.parse().ok()?).ok())
}

/// Checks a table and makes a recipe of it.
pub fn check(table: Table) -> Result<Recipe> {
    let mut recipe = Recipe::from_table(table)?;
    recipe.step = recipe.step.with_largest_batch();
    recipe.weights = recipe.weights.filter(|weights| weights.as_os_str() != "none");
    if recipe.phases.is_empty() {
        refuse!("the recipe has no [[phases]]");
    }
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_train::Trainable;

    #[test]
    fn every_built_in_recipe_is_sound_and_stays_the_same_when_written_down() {
        for text in BUILT_IN {
            let recipe = check(text.parse().unwrap()).unwrap();
            let again = check(recipe.to_text().parse().unwrap()).unwrap();
            assert_eq!(again, recipe);
            assert!(octant_zoo::find(&recipe.model).is_ok(), "{}", recipe.model);
        }
    }

    #[test]
    fn misspelled_keys_and_names_are_refused_with_a_suggestion() {
        let mut wrong = table("glyphs").unwrap();
        set_text(&mut wrong, "batchsize=3").unwrap();
        assert!(check(wrong).unwrap_err().to_string().contains("did you mean \"batch_size\""));
        let mut wrong = table("glyphs").unwrap();
        set_text(&mut wrong, "phases.0.schedule.min_rl=3").unwrap();
        assert!(check(wrong).unwrap_err().to_string().contains("did you mean \"min_lr\""));
        assert!(table("fashion-mnst").unwrap_err().to_string().contains("did you mean fashion-mnist"));
        assert!(table("mshnet").unwrap_err().to_string().contains("did you mean mshnet-irstd"));
    }

    #[test]
    fn errors_of_recipes_name_no_types_of_rust() {
        let types =
            ["usize", "u64", "f64", "f32", "u32", "enum", "struct", "tuple", "Vec", "untagged", "Option", "i64"];
        for assignment in [
            "batch_size=\"many\"",
            "batch_size=-1",
            "cores=true",
            "classes=1.5",
            "normalize=3",
            "eval_transform=7",
            "eval_transform=[{ op = \"resize\", size = 7 }]",
            "eval_transform=[{ op = \"resize-short\" }]",
            "eval_transform=[{ op = \"resiz\", size = [1, 2] }]",
            "eval_transform=[{ size = [1, 2] }]",
            "eval_transform=[{ op = \"flip-horizontally\", q = 1 }]",
            "eval_transform=[{ op = \"posterize\", bits = \"x\" }]",
            "eval_transform=[{ op = \"auto-augment\", policy = \"x\" }]",
            "eval_transform=[3]",
            "phases.0.train=4",
            "phases.0.betas=[1]",
            "phases.0.mix=3",
            "phases.0.schedule.kind=\"cosin\"",
            "phases=3",
            "data=\"glyphs\"",
        ] {
            let mut wrong = table("glyphs").unwrap();
            set_text(&mut wrong, assignment).unwrap();
            let error = check(wrong).expect_err(assignment).to_string();
            assert!(types.iter().all(|name| !error.contains(name)), "{assignment}: {error}");
            let key = assignment.split(['=', '.']).next().unwrap();
            assert!(error.contains(key), "{assignment}: {error}");
        }
    }

    #[test]
    fn the_former_spelling_of_normalize_is_understood() {
        let mut old = table("glyphs").unwrap();
        set_text(&mut old, "normalise=none").unwrap();
        assert_eq!(check(old).unwrap().normalize, crate::NormalizationMode::None);
    }

    #[test]
    fn flags_reach_every_depth() {
        let mut recipe = table("cifar100-efficientnetv2").unwrap();
        set_text(&mut recipe, "phases.1.schedule.lr=0.5").unwrap();
        set_text(&mut recipe, "device=cpu").unwrap();
        set_text(&mut recipe, "phases.0.train=[\"head.fc\"]").unwrap();
        let recipe = check(recipe).unwrap();
        assert_eq!((recipe.phases[1].schedule.lr, recipe.device.as_str()), (0.5, "cpu"));
        assert_eq!(recipe.phases[0].options.train, Trainable::Under(vec!["head.fc".into()]));
    }
}
