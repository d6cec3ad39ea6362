//! A run as one file that can be copied to a drive or a bucket: a tar archive whose last member has the SHA-256 of all others.

use crate::{Result, RunError};
use octant_data::readers::{member_bytes, visit_members};
use octant_fetch::sha256;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Component, Path, PathBuf};

/// The member with the checksums, in the form that `sha256sum -c` reads.
const SUMS: &str = "SHA256SUMS";

fn refused(sentence: String) -> RunError {
    RunError::Refused(sentence)
}

fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> RunError + '_ {
    move |error| refused(format!("cannot read {}: {error}", path.display()))
}

/// Writes all files of a run into one archive; returns how many there are, and the size of the archive in bytes.
pub fn pack_run(run: &Path, to: &Path) -> Result<(usize, u64)> {
    if !run.join("config.toml").is_file() {
        return Err(refused(format!("{} holds no run (it has no config.toml)", run.display())));
    }
    let whole = std::path::absolute(run).map_err(unreadable(run))?;
    let name = whole.file_name().ok_or_else(|| refused("the run has no name".into()))?.to_string_lossy().into_owned();
    let mut files = Vec::new();
    collect(run, Path::new(&name), &mut files).map_err(unreadable(run))?;
    files.sort();
    let unwritten = |problem: String| refused(format!("cannot write {}: {problem}", to.display()));
    // A temporary name, so that an archive of the right name is whole.
    let unfinished = to.with_extension("part");
    let mut sums = String::new();
    let mut write = || -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let mut archive = BufWriter::new(File::create(&unfinished).map_err(text)?);
        for (member, path) in &files {
            let contents = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            sums += &format!("{}  {member}\n", sha256(&contents));
            archive.write_all(&member_bytes(member, &contents)?).map_err(text)?;
        }
        archive.write_all(&member_bytes(SUMS, sums.as_bytes())?).map_err(text)?;
        archive.write_all(&[0; 1024]).map_err(text)?;
        archive.into_inner().map_err(|error| error.into_error().to_string())?.sync_all().map_err(text)?;
        std::fs::rename(&unfinished, to).map_err(text)
    };
    write().map_err(unwritten)?;
    Ok((files.len(), std::fs::metadata(to).map_err(unreadable(to))?.len()))
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

/// Restores the run of an archive below a folder, and compares every file with its checksum; returns its
/// directory and how many files it has.
pub fn unpack_run(archive: &Path, to: &Path) -> Result<(PathBuf, usize)> {
    let file = File::open(archive).map_err(unreadable(archive))?;
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
    .map_err(|problem| refused(format!("{}: {problem}", archive.display())))?;
    let sums =
        sums.ok_or_else(|| refused(format!("{} is no archive of a run: it has no {SUMS}", archive.display())))?;
    let wanted: HashMap<&str, &str> =
        sums.lines().filter_map(|line| line.split_once("  ")).map(|(sum, name)| (name, sum)).collect();
    let damaged = wanted.iter().find(|(name, sum)| found.get(**name).map(String::as_str) != Some(**sum));
    if let Some((name, _)) = damaged {
        let archive = archive.display();
        return Err(refused(format!("{name} of {archive} is damaged or missing: copy the archive again")));
    }
    let root = wanted.keys().next().and_then(|name| name.split('/').next()).unwrap_or_default();
    Ok((to.join(root), found.len()))
}

/// The path of a member below the folder; an archive may not write anywhere else.
fn inside(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let is_plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if is_plain { Ok(folder.join(name)) } else { Err(format!("{name:?} would lie outside of the folder")) }
}
