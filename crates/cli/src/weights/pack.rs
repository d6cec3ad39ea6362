//! A run as one file that can be copied to a drive or a bucket: a tar archive whose last member has the SHA-256 of all others.

use crate::output::{Json, bytes};
use anyhow::{Context, Result, bail};
use octant_data::readers::{member_bytes, visit_members};
use octant_fetch::sha256;
use serde_json::json;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Component, Path, PathBuf};

/// The member with the checksums, in the form that `sha256sum -c` reads.
const SUMS: &str = "SHA256SUMS";

/// Writes all files of a run into one archive.
pub(super) fn pack(run: &Path, to: &Path, as_json: bool) -> Result<()> {
    if !run.join("config.toml").is_file() {
        bail!("{} holds no run (it has no config.toml)", run.display());
    }
    let name = std::path::absolute(run)?.file_name().context("the run has no name")?.to_string_lossy().into_owned();
    let mut files = Vec::new();
    collect(run, Path::new(&name), &mut files).with_context(|| format!("cannot read {}", run.display()))?;
    files.sort();
    // A temporary name, so that an archive of the right name is whole.
    let unfinished = to.with_extension("part");
    let mut sums = String::new();
    let mut write = || -> Result<()> {
        let mut archive = BufWriter::new(File::create(&unfinished)?);
        for (member, path) in &files {
            let contents = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            sums += &format!("{}  {member}\n", sha256(&contents));
            archive.write_all(&member_bytes(member, &contents).map_err(anyhow::Error::msg)?)?;
        }
        archive.write_all(&member_bytes(SUMS, sums.as_bytes()).map_err(anyhow::Error::msg)?)?;
        archive.write_all(&[0; 1024])?;
        archive.into_inner().map_err(|error| error.into_error())?.sync_all()?;
        Ok(std::fs::rename(&unfinished, to)?)
    };
    write().with_context(|| format!("cannot write {}", to.display()))?;
    let size = std::fs::metadata(to)?.len();
    match as_json {
        true => Json::line(json!({ "event": "done", "path": to, "files": files.len(), "bytes": size })),
        false => println!(
            "{}: {} files, {}; `octant weights unpack {} FOLDER` checks and restores them",
            to.display(),
            files.len(),
            bytes(size),
            to.display()
        ),
    }
    Ok(())
}

/// Every file below a folder, with its name in the archive.
fn collect(folder: &Path, name: &Path, files: &mut Vec<(String, PathBuf)>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), name.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            true => collect(&path, &name, files)?,
            false => files.push((name.to_string_lossy().into_owned(), path)),
        }
    }
    Ok(())
}

/// Restores the run of an archive below a folder, and compares every file with its checksum.
pub(super) fn unpack(archive: &Path, to: &Path, as_json: bool) -> Result<()> {
    let file = File::open(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    let mut found: HashMap<String, String> = HashMap::new();
    let mut sums = None;
    visit_members(BufReader::new(file), |member, reader| {
        let mut contents = Vec::new();
        reader.read_to_end(&mut contents).map_err(|error| error.to_string())?;
        if member.name == SUMS {
            sums = Some(String::from_utf8_lossy(&contents).into_owned());
            return Ok(());
        }
        let path = inside(to, &member.name)?;
        if path.exists() {
            return Err(format!("{} exists already; choose another folder", path.display()));
        }
        let parent = path.parent().unwrap_or(to);
        let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, &contents));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        found.insert(member.name.clone(), sha256(&contents));
        Ok(())
    })
    .map_err(|problem| anyhow::anyhow!("{}: {problem}", archive.display()))?;
    let sums = sums.with_context(|| format!("{} is no archive of a run: it has no {SUMS}", archive.display()))?;
    let wanted: HashMap<&str, &str> =
        sums.lines().filter_map(|line| line.split_once("  ")).map(|(sum, name)| (name, sum)).collect();
    let damaged = wanted.iter().find(|(name, sum)| found.get(**name).map(String::as_str) != Some(**sum));
    if let Some((name, _)) = damaged {
        bail!("{name} of {} is damaged or missing: copy the archive again", archive.display());
    }
    let root = wanted.keys().next().and_then(|name| name.split('/').next()).unwrap_or_default();
    let run = to.join(root);
    match as_json {
        true => Json::line(json!({ "event": "done", "run": run, "files": found.len() })),
        false => println!("{}: {} files, all as they were packed", run.display(), found.len()),
    }
    Ok(())
}

/// The path of a member below the folder; an archive may not write anywhere else.
fn inside(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let is_plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if is_plain { Ok(folder.join(name)) } else { Err(format!("{name:?} would lie outside of the folder")) }
}
