//! `docs/recipes.md`: the words around the tables are written by hand, the tables follow from the declarations.

use crate::transform::NamedTransform;
use crate::{
    AugmentOptions, DataSource, DegradeOptions, GainOptions, GanOptions, PhaseRecipe, Recipe, SOURCES, ScheduleRecipe,
    TASKS, Transforms,
};
use octant_data::TransformStep;
use octant_data::transforms::STEPS;
use octant_train::options::{OptionSpec, OptionTable};
use octant_train::{MixOptions, WarmupOptions};

/// How images are resized: written once on the page, above the table of steps.
const METHOD: &str = r#"method = { filter = "bilinear", semantics = "pil", antialias = true }"#;

/// The page with all its tables brought up to date. A table stands between `<!-- table: NAME -->` and `<!-- end -->`.
pub fn updated(page: &str) -> Result<String, String> {
    let mut updated = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<!-- table: ") {
        let (name, after) = after.split_once(" -->").ok_or("a mark for a table is not closed")?;
        let (_, after) = after.split_once("<!-- end -->").ok_or_else(|| format!("the table {name} has no end"))?;
        updated += &format!("{before}<!-- table: {name} -->\n{}<!-- end -->", table(name)?);
        rest = after;
    }
    Ok(updated + rest)
}

fn table(name: &str) -> Result<String, String> {
    Ok(match name {
        "run" => keys(Recipe::specs()),
        "data" => keys(DataSource::specs()),
        "phases" => keys(PhaseRecipe::specs()),
        "mix" => keys(MixOptions::specs()),
        "warmup" => keys(WarmupOptions::specs()),
        "augment" => keys(AugmentOptions::specs()),
        "gains" => keys(GainOptions::specs()),
        "gan" => keys(GanOptions::specs()),
        "degrade" => keys(DegradeOptions::specs()),
        "schedule" => keys(ScheduleRecipe::specs()),
        "tasks" => rows(
            ["`task`", "what is learned", "`loss`"],
            TASKS.iter().map(|task| {
                let losses = if task.losses.is_empty() { "its own".into() } else { quoted(task.losses) };
                [format!("`{}`", task.name), task.about.to_string(), losses]
            }),
        ),
        "sources" => rows(
            ["`data.kind`", "what it is", "`data.dir`"],
            SOURCES.iter().map(|source| {
                let needs = if source.is_synthetic() { "generated on the fly" } else { "needed" };
                [format!("`{}`", source.kind), source.about.to_string(), needs.to_string()]
            }),
        ),
        "steps" => rows(
            ["step, with its usual arguments", "what it does"],
            STEPS.iter().map(|step| {
                [format!("`{{ {} }}`", step.example.replace(METHOD, "method = …")), step.about.to_string()]
            }),
        ),
        "pipelines" => pipelines()?,
        other => return Err(format!("unknown table {other}")),
    })
}

/// The steps of every named pipeline, for a network that takes images of 224 × 224.
fn pipelines() -> Result<String, String> {
    let recipe = crate::check(crate::table("classify").map_err(|error| error.to_string())?);
    let recipe = Recipe { image_size: Some(224), ..recipe.map_err(|error| error.to_string())? };
    let entry = octant_zoo::find("resnet50").map_err(|error| error.to_string())?;
    let mut table = Vec::new();
    for &name in NamedTransform::ALL {
        let steps = |training: bool| {
            let pipeline = crate::transform(&recipe, &Transforms::Named(name), training, entry);
            let steps: Vec<String> = pipeline.map_err(|error| error.to_string())?.steps.iter().map(in_short).collect();
            Ok::<_, String>(if steps.is_empty() { "–".to_string() } else { steps.join(", ") })
        };
        table.push([format!("`{name}`"), steps(true)?, steps(false)?]);
    }
    Ok(rows(["name", "learned from", "evaluated"], table.into_iter()))
}

/// A step with its arguments, without those that say how pixels are computed where that is Pillow's bilinear rule.
fn in_short(step: &TransformStep) -> String {
    let value = toml::Value::try_from(step).unwrap_or(toml::Value::Boolean(false));
    let arguments =
        value.as_table().into_iter().flatten().filter(|(key, _)| !["op", "semantics"].contains(&key.as_str()));
    let shown = arguments.filter_map(|(key, value)| match (key.as_str(), value.get("filter")) {
        ("method", Some(filter)) if filter.as_str() == Some("bilinear") => None,
        ("method", Some(filter)) => Some(format!("filter {filter}").replace('"', "")),
        _ => Some(format!("{key} {}", crate::transform::shortest(value.clone())).replace('"', "")),
    });
    let op = value.get("op").and_then(toml::Value::as_str).unwrap_or("?");
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { format!("`{op}`") } else { format!("`{op}` ({})", shown.join("; ")) }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn rows<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace("N|all", "N\\|all"));
    let mut text = line(&head.map(str::to_string)) + &format!("|{}\n", "---|".repeat(N));
    rows.for_each(|row| text += &line(&row));
    text
}

fn keys(specs: Vec<OptionSpec>) -> String {
    rows(
        ["key", "meaning", "values", "if not given", "flag"],
        specs.into_iter().map(|spec| {
            let values = match (spec.inner.is_empty(), spec.choices.is_empty()) {
                (false, _) => "see below".to_string(),
                (true, false) => quoted(&spec.choices),
                (true, true) => {
                    let range = spec.range().map(|range| format!(", {}", in_values(&range))).unwrap_or_default();
                    format!("{}{range}", spec.expected)
                }
            };
            let unset = match (&spec.default, spec.unset) {
                (_, words) if !words.is_empty() => words.to_string(),
                (Some(value), _) if value.as_str() == Some("") => "–".to_string(),
                (Some(value), _) => format!("`{}`", value.to_string().trim_matches('"')),
                (None, _) => "must be given".to_string(),
            };
            let flag = spec.flag.map(|flag| format!("`--{}`", flag.name)).unwrap_or_default();
            [format!("`{}`", spec.key), spec.doc, values, unset, flag]
        }),
    )
}

/// `be at least 1` as it follows the words for a type.
fn in_values(range: &str) -> String {
    range
        .replace("be at", "at")
        .replace("be above", "above")
        .replace("be below", "below")
        .replace("lie within", "within")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `OCTANT_WRITE_DOCS=1 cargo test -p octant-recipe page` rewrites the page.
    #[test]
    fn the_tables_of_the_page_follow_the_declarations() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recipes.md");
        let page = std::fs::read_to_string(path).unwrap();
        let updated = updated(&page).unwrap();
        if std::env::var_os("OCTANT_WRITE_DOCS").is_some() {
            std::fs::write(path, &updated).unwrap();
            return;
        }
        assert!(
            updated == page,
            "docs/recipes.md is out of date: run `OCTANT_WRITE_DOCS=1 cargo test -p octant-recipe page`"
        );
    }

    #[test]
    fn every_table_of_keys_is_on_the_page() {
        let page = include_str!("../../../docs/recipes.md");
        for name in
            ["run", "data", "augment", "phases", "mix", "warmup", "schedule", "tasks", "sources", "steps", "pipelines"]
        {
            assert!(page.contains(&format!("<!-- table: {name} -->")), "{name}");
        }
    }
}
