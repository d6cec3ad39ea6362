//! The run directory: what a run leaves behind.

use anyhow::{Context, Result, bail};
use octant_tensor::HostTensor;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// `config.toml`, `log.txt`, `metrics.csv` and `checkpoints/` of one run.
pub(crate) struct RunDirectory {
    path: PathBuf,
    log: File,
    metrics: File,
    has_header: bool,
}

impl RunDirectory {
    /// Makes the directory that was asked for, or the next free one under `runs/`.
    pub fn create(wanted: Option<&Path>, recipe: &str, config: &str) -> Result<RunDirectory> {
        let path = match wanted {
            Some(path) => path.to_path_buf(),
            None => next_free(recipe),
        };
        if path.join("config.toml").exists() {
            bail!("{} already holds a run; give another --out or remove it", path.display());
        }
        let explain = || format!("cannot write to {}; choose another place with --out", path.display());
        std::fs::create_dir_all(path.join("checkpoints")).with_context(explain)?;
        std::fs::write(path.join("config.toml"), config).with_context(explain)?;
        let open = |name: &str| OpenOptions::new().create(true).append(true).open(path.join(name)).with_context(explain);
        let (log, metrics) = (open("log.txt")?, open("metrics.csv")?);
        Ok(RunDirectory { path, log, metrics, has_header: false })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A line for `log.txt`.
    pub fn log(&mut self, line: &str) -> Result<()> {
        writeln!(self.log, "{line}").with_context(|| self.full("log.txt"))
    }

    /// A row of `metrics.csv`; the first one also writes the header. Only values that a second run reproduces belong
    /// here.
    pub fn metrics(&mut self, row: &[(String, f64)]) -> Result<()> {
        let join = |cells: Vec<String>| cells.join(",");
        let context = self.full("metrics.csv");
        if !self.has_header {
            let header = join(row.iter().map(|(name, _)| name.clone()).collect());
            writeln!(self.metrics, "{header}").with_context(|| context.clone())?;
            self.has_header = true;
        }
        let values = join(row.iter().map(|(_, value)| value.to_string()).collect());
        writeln!(self.metrics, "{values}").with_context(|| context)
    }

    /// Writes the weights as `checkpoints/last/model.safetensors`: to a temporary name first, so that a file of that
    /// name is always whole.
    pub fn save(&self, weights: &[(String, HostTensor)], metadata: &[(String, String)]) -> Result<PathBuf> {
        let folder = self.path.join("checkpoints/last");
        std::fs::create_dir_all(&folder).with_context(|| self.full("checkpoints/last"))?;
        let path = folder.join("model.safetensors");
        let named = weights.iter().map(|(name, tensor)| (name.as_str(), tensor));
        octant_archive::save_safetensors(&path, named, metadata).with_context(|| self.full("the checkpoint"))?;
        Ok(path)
    }

    fn full(&self, what: &str) -> String {
        format!("cannot write {what} in {}; is the disk full?", self.path.display())
    }
}

fn next_free(recipe: &str) -> PathBuf {
    let candidates = (1..).map(|number| PathBuf::from(format!("runs/{recipe}-{number}")));
    candidates.into_iter().find(|path| !path.exists()).expect("the numbers do not end")
}
