//! The table of crates in ARCHITECTURE.md is complete, dependencies point only upwards in it, and every file of tests runs.

use anyhow::{Context, Result, bail};
use std::path::Path;

pub fn check() -> Result<()> {
    let page = std::fs::read_to_string("ARCHITECTURE.md").context("run from the root of the repository")?;
    let order = crates_in_table(&page);
    let mut problems = Vec::new();
    for name in crate_folders()? {
        let Some(position) = order.iter().position(|listed| *listed == name) else {
            problems.push(format!("{name} is not in the table of ARCHITECTURE.md"));
            continue;
        };
        for dependency in dependencies(&name)? {
            let above = order[..position].contains(&dependency);
            if !above {
                problems.push(format!("{name} depends on {dependency}, which is not above it in ARCHITECTURE.md"));
            }
        }
        problems.extend(forgotten_tests(&name)?);
    }
    for listed in order.iter().filter(|listed| !Path::new("crates").join(listed).exists()) {
        problems.push(format!("ARCHITECTURE.md lists {listed}, which does not exist"));
    }
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n       ")) }
}

/// The names in the first column of the table.
fn crates_in_table(page: &str) -> Vec<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`').map(|(name, _)| name.to_string())).collect()
}

fn crate_folders() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir("crates").context("run from the root of the repository")? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").exists() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn manifest(name: &str) -> Result<toml::Table> {
    let path = format!("crates/{name}/Cargo.toml");
    std::fs::read_to_string(&path)?.parse().with_context(|| format!("cannot parse {path}"))
}

/// Files of tests that nothing would run: where a crate lists its test programs, a new file is part of none.
fn forgotten_tests(name: &str) -> Result<Vec<String>> {
    let manifest = manifest(name)?;
    let package = manifest.get("package").and_then(toml::Value::as_table);
    if package.and_then(|package| package.get("autotests")) != Some(&false.into()) {
        return Ok(Vec::new());
    }
    let folder = Path::new("crates").join(name).join("tests");
    let programs = manifest.get("test").and_then(toml::Value::as_array).into_iter().flatten();
    let programs: Vec<&str> = programs.filter_map(|test| test.get("name")?.as_str()).collect();
    let mut modules = String::new();
    for program in &programs {
        modules += &std::fs::read_to_string(folder.join(format!("{program}.rs")))?;
    }
    let mut forgotten = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_rust = path.extension().is_some_and(|ending| ending == "rs") || path.join("main.rs").exists();
        let runs = programs.contains(&file.as_str()) || modules.lines().any(|line| line == format!("mod {file};"));
        if is_rust && !runs {
            forgotten.push(format!("{} is part of no test program of {name}: add `mod {file};`", path.display()));
        }
    }
    Ok(forgotten)
}

/// The crates of this workspace that a crate needs to be built; what only its tests need does not count.
fn dependencies(name: &str) -> Result<Vec<String>> {
    let manifest = manifest(name)?;
    let table = manifest.get("dependencies").and_then(toml::Value::as_table);
    let names = table.into_iter().flat_map(|table| table.keys());
    Ok(names.filter_map(|key| key.strip_prefix("octant-").map(str::to_string)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_column_is_read() {
        let page = "| crate | room |\n|---|---|\n| `tensor` | bytes |\n| `graph` | `Tensor` |\n";
        assert_eq!(crates_in_table(page), ["tensor", "graph"]);
    }
}
