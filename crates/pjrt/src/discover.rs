//! Finding plugins that are already on this machine.
//!
//! They lie in many locations: named in the environment, in Octant's own cache (see [`crate::install`]), in the
//! packages of the Python they use, or where the images of TPU machines and notebooks have them. The first match wins,
//! and every find says where it came from.

use crate::error::{PjrtError, Result};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a plugin is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PluginKind {
    /// libtpu.
    Tpu,
    /// NVIDIA GPUs with CUDA 13.
    Cuda13,
    /// NVIDIA GPUs with CUDA 12.
    Cuda12,
    /// Something that the user named.
    Other,
}

impl PluginKind {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PluginKind::Tpu => "tpu",
            PluginKind::Cuda13 => "cuda13",
            PluginKind::Cuda12 => "cuda12",
            PluginKind::Other => "other",
        }
    }

    /// Where the library lies below a folder of Python packages.
    pub(crate) fn path_in_packages(self) -> Option<&'static str> {
        match self {
            PluginKind::Tpu => Some("libtpu/libtpu.so"),
            PluginKind::Cuda13 => Some("jax_plugins/xla_cuda13/xla_cuda_plugin.so"),
            PluginKind::Cuda12 => Some("jax_plugins/xla_cuda12/xla_cuda_plugin.so"),
            PluginKind::Other => None,
        }
    }

    /// The kinds that can be searched for and installed, in order of preference.
    pub const KNOWN: [PluginKind; 3] = [PluginKind::Tpu, PluginKind::Cuda13, PluginKind::Cuda12];

    fn of(path: &Path) -> PluginKind {
        let text = path.to_string_lossy();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("libtpu.so") => PluginKind::Tpu,
            Some("xla_cuda_plugin.so") if text.contains("cuda12") => PluginKind::Cuda12,
            Some("xla_cuda_plugin.so") => PluginKind::Cuda13,
            _ => PluginKind::Other,
        }
    }
}

impl fmt::Display for PluginKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A plugin that lies on this machine. It has not been loaded yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPlugin {
    /// What it is for.
    pub kind: PluginKind,
    /// The library.
    pub path: PathBuf,
    /// Why it was looked for there, as the end of a sentence: `named by TPU_LIBRARY_PATH`.
    pub origin: String,
    /// The version of the package that it belongs to, where it is part of one.
    pub version: Option<String>,
}

/// Every plugin on this machine, best first, each library once.
pub fn plugins() -> Vec<FoundPlugin> {
    SearchPath::of_this_machine().search()
}

/// The best plugin among `kinds`.
pub fn plugin(kinds: &[PluginKind]) -> Result<FoundPlugin> {
    plugins().into_iter().find(|found| kinds.contains(&found.kind)).ok_or_else(|| {
        let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
        let names = names.join(" or ");
        PjrtError::NoPlugin { install: kinds.first().map_or("tpu", |kind| kind.name()).to_string(), kinds: names }
    })
}

/// Octant's own folder for things that can be fetched again: `$OCTANT_CACHE`, else `~/.cache/octant`.
pub fn cache_folder() -> PathBuf {
    cache_folder_from(|name| std::env::var_os(name))
}

fn cache_folder_from(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    if let Some(cache) = variable("OCTANT_CACHE") {
        return cache.into();
    }
    let base = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("octant")
}

/// A file or folder to look at, and why, as the end of a sentence.
type Candidate = (PathBuf, String);

/// Where to look, in order.
#[derive(Default)]
struct SearchPath {
    /// Libraries that the environment names.
    named: Vec<Candidate>,
    /// Folders of Python packages.
    packages: Vec<Candidate>,
    /// Libraries of this machine's image.
    image: Vec<Candidate>,
}

impl SearchPath {
    fn of_this_machine() -> SearchPath {
        let cache = cache_folder().join("plugins");
        let installed = PluginKind::KNOWN.map(|kind| (cache.join(kind.name()), "installed by Octant".to_string()));
        let of_python = python_packages().into_iter().map(|path| (path, "a package of python3".to_string()));
        let well_known = well_known_packages().into_iter().map(|path| {
            let origin = format!("a package in {}", path.display());
            (path, origin)
        });
        // Where images of TPU machines have it, for use without Python.
        let image = ["/lib/libtpu.so", "/usr/lib/libtpu.so", "/usr/local/lib/libtpu.so"];
        SearchPath {
            named: named_in_environment(|name| std::env::var_os(name)),
            packages: installed.into_iter().chain(of_python).chain(well_known).collect(),
            image: image.map(|path| (path.into(), "part of this machine's image".to_string())).to_vec(),
        }
    }

    fn search(&self) -> Vec<FoundPlugin> {
        let in_packages = PluginKind::KNOWN.into_iter().flat_map(|kind| {
            let relative = kind.path_in_packages().unwrap_or_default();
            self.packages.iter().map(move |(folder, origin)| (folder.join(relative), origin.clone()))
        });
        let others = in_packages.chain(self.image.iter().cloned()).filter(|(path, _)| path.is_file());
        let mut found: Vec<FoundPlugin> = Vec::new();
        // A path that the user named is kept even if it is wrong, so that loading it reports that.
        for (path, origin) in self.named.iter().cloned().chain(others) {
            let path = path.canonicalize().unwrap_or(path);
            if found.iter().all(|earlier| earlier.path != path) {
                found.push(FoundPlugin { kind: PluginKind::of(&path), version: package_version(&path), path, origin });
            }
        }
        found
    }
}

/// Octant's own variable, libtpu's, and the one that other frameworks share (`name:path,name:path`).
fn named_in_environment(variable: impl Fn(&str) -> Option<OsString>) -> Vec<(PathBuf, String)> {
    let mut named = Vec::new();
    for name in ["OCTANT_PJRT_PLUGIN", "TPU_LIBRARY_PATH"] {
        if let Some(path) = variable(name).filter(|path| !path.is_empty()) {
            named.push((PathBuf::from(path), format!("named by {name}")));
        }
    }
    const SHARED: &str = "PJRT_NAMES_AND_LIBRARY_PATHS";
    if let Some(list) = variable(SHARED).and_then(|list| list.into_string().ok()) {
        for (_, path) in list.split(',').filter_map(|entry| entry.split_once(':')) {
            named.push((PathBuf::from(path), format!("named by {SHARED}")));
        }
    }
    named
}

/// The package folders of the `python3` that the user would start.
fn python_packages() -> Vec<PathBuf> {
    let program = "import sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))";
    let Ok(output) = Command::new("python3").args(["-c", program]).output() else { return Vec::new() };
    String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect()
}

/// Package folders of Pythons that need not be on the path: system ones (Colab, TPU machines) and conda's (Kaggle).
fn well_known_packages() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for library in ["/usr/local/lib", "/usr/lib", "/opt/conda/lib"] {
        let Ok(entries) = fs::read_dir(library) else { continue };
        let mut pythons: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        pythons.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")));
        pythons.sort();
        for python in pythons.into_iter().rev() {
            folders.push(python.join("dist-packages"));
            folders.push(python.join("site-packages"));
        }
    }
    folders
}

/// The version in the name of the `dist-info` folder beside a plugin's package.
pub(crate) fn package_version(library: &Path) -> Option<String> {
    let (package, depth) = match PluginKind::of(library) {
        PluginKind::Tpu => ("libtpu", 2),
        PluginKind::Cuda13 => ("jax_cuda13_pjrt", 3),
        PluginKind::Cuda12 => ("jax_cuda12_pjrt", 3),
        PluginKind::Other => return None,
    };
    let packages = library.ancestors().nth(depth)?;
    fs::read_dir(packages).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (name, version) = name.strip_suffix(".dist-info")?.split_once('-')?;
        (name == package).then(|| version.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn the_environment_comes_first_then_packages_then_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let [own, packages, image] = ["own/libtpu.so", "site-packages/libtpu/libtpu.so", "lib/libtpu.so"];
        [own, packages, image].iter().for_each(|path| touch(&root.join(path)));
        touch(&root.join("site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so"));
        fs::create_dir(root.join("site-packages/libtpu-0.0.51.dist-info")).unwrap();
        fs::create_dir(root.join("site-packages/jax_cuda12_pjrt-0.11.2.dist-info")).unwrap();
        let path = SearchPath {
            named: vec![(root.join(own), "named by OCTANT_PJRT_PLUGIN".into())],
            image: vec![(root.join(image), "part of this machine's image".into())],
            packages: vec![
                (root.join("nothing here"), "installed by Octant".into()),
                (root.join("site-packages"), "a package of python3".into()),
                (root.join("site-packages"), "found twice".into()),
            ],
        };
        let found = path.search();
        let summary: Vec<_> = found.iter().map(|found| (found.kind, found.version.as_deref())).collect();
        assert_eq!(
            summary,
            [
                (PluginKind::Tpu, None),
                (PluginKind::Tpu, Some("0.0.51")),
                (PluginKind::Cuda12, Some("0.11.2")),
                (PluginKind::Tpu, None),
            ]
        );
        assert_eq!(found[3].path, root.join(image));
    }

    #[test]
    fn the_environments_forms_are_understood() {
        let named = named_in_environment(|name| match name {
            "TPU_LIBRARY_PATH" => Some("/a/libtpu.so".into()),
            "PJRT_NAMES_AND_LIBRARY_PATHS" => Some("mine:/b/mine.so,cuda:/c/xla_cuda_plugin.so".into()),
            _ => None,
        });
        let paths: Vec<_> = named.iter().map(|(path, _)| path.to_str().unwrap()).collect();
        assert_eq!(paths, ["/a/libtpu.so", "/b/mine.so", "/c/xla_cuda_plugin.so"]);
    }

    #[test]
    fn a_named_plugin_that_is_missing_is_not_skipped_in_silence() {
        let named = vec![(PathBuf::from("/nowhere/plugin.so"), "named by OCTANT_PJRT_PLUGIN".to_string())];
        let found = SearchPath { named, ..SearchPath::default() }.search();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].kind, PluginKind::Other);
    }

    #[test]
    fn the_cache_follows_the_environment() {
        let with = |variables: &'static [(&str, &str)]| {
            cache_folder_from(move |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert_eq!(with(&[("OCTANT_CACHE", "/c"), ("HOME", "/h")]), Path::new("/c"));
        assert_eq!(with(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]), Path::new("/x/octant"));
        assert_eq!(with(&[("HOME", "/h")]), Path::new("/h/.cache/octant"));
    }
}
