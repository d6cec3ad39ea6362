//! Compares the tensors of a file with those of a model.

use crate::{Archive, ArchiveError};
use octant_tensor::Shape;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// How the tensors of an archive fit the parameters of a model. Names decide; element types may differ, since they are
/// converted on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matching {
    /// Same name, same dimensions.
    pub matched: Vec<String>,
    /// Wanted by the model, not in the archive.
    pub missing: Vec<(String, Shape)>,
    /// In the archive, unknown to the model.
    pub unexpected: Vec<(String, Shape)>,
    /// Same name, other dimensions.
    pub other_shape: Vec<OtherShape>,
    /// The classifier of another number of classes: it keeps its initial values, which is reported.
    pub other_head: Vec<OtherShape>,
    /// The classifier that the archive lacks, as files of features do.
    pub missing_head: Vec<(String, Shape)>,
    /// Adapters that the archive lacks: they are new.
    pub new_adapters: Vec<(String, Shape)>,
}

/// How well an archive has to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Every tensor, on both sides.
    Exact,
    /// Every tensor but those of the head, which may be missing or of another size: it is trained anew.
    AnyHead,
    /// Something at least: what does not fit starts afresh.
    Partial,
}

/// A tensor whose dimensions are not the wanted ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherShape {
    /// Its name.
    pub name: String,
    /// What the model has.
    pub wanted: Shape,
    /// What the archive has.
    pub found: Shape,
}

/// What PyTorch files hold beside weights: batch norm's step counter, and tables of windowed attention that follow from
/// its size. Some files lack them and they are not needed, so they are never reported as missing.
const BESIDE: [&str; 3] = ["num_batches_tracked", "relative_position_index", "attn_mask"];

impl Matching {
    /// Compares an archive with the wanted parameters. `head` names the modules that end in one value per class, such
    /// as `fc` or `classifier.1`; a tensor under one of them may have another size.
    pub fn between(archive: &Archive, wanted: &[(String, Shape)], head: &[&str]) -> Matching {
        let found: HashMap<&str, &Shape> =
            archive.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.shape())).collect();
        let known: HashSet<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
        let mut matching = Matching::default();
        for (name, shape) in wanted {
            match found.get(name.as_str()) {
                Some(found) if found.dims() == shape.dims() => matching.matched.push(name.clone()),
                Some(&found) => {
                    let other = OtherShape { name: name.clone(), wanted: shape.clone(), found: found.clone() };
                    let list = if is_under(name, head) { &mut matching.other_head } else { &mut matching.other_shape };
                    list.push(other);
                }
                None if is_beside(name) => {}
                None if is_under(name, head) => matching.missing_head.push((name.clone(), shape.clone())),
                None => matching.missing.push((name.clone(), shape.clone())),
            }
        }
        let unknown = archive.tensors.iter().filter(|(name, _)| !known.contains(name.as_str()) && !is_beside(name));
        matching.unexpected = unknown.map(|(name, tensor)| (name.clone(), tensor.shape().clone())).collect();
        matching
    }

    /// Counts what is missing and that `is_adapter` names as new adapters instead: they start afresh.
    pub fn with_adapters(mut self, is_adapter: impl Fn(&str) -> bool) -> Matching {
        let (new, missing) = std::mem::take(&mut self.missing).into_iter().partition(|(name, _)| is_adapter(name));
        (self.new_adapters, self.missing) = (new, missing);
        self
    }

    /// True when nothing is missing, unexpected or of another shape.
    pub fn is_exact(&self) -> bool {
        let is_new = self.missing_head.is_empty() && self.new_adapters.is_empty();
        self.fits_but_for_the_head() && self.other_head.is_empty() && is_new
    }

    fn fits_but_for_the_head(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.other_shape.is_empty()
    }

    /// Decides whether the archive will do. Weights of which nothing fits belong to another network, whatever the fit.
    pub fn require(&self, fit: Fit) -> Result<(), ArchiveError> {
        if self.matched.is_empty() {
            let sentence = "not one name and shape agrees, so they belong to another network";
            return Err(ArchiveError::Mismatch(format!("{sentence}.\n{self}")));
        }
        let fits = match fit {
            Fit::Exact => self.is_exact(),
            Fit::AnyHead => self.fits_but_for_the_head(),
            Fit::Partial => true,
        };
        if fits { Ok(()) } else { Err(ArchiveError::Mismatch(self.to_string())) }
    }
}

impl Matching {
    /// An unknown tensor, with the missing one of the same dimensions that is at most two edits away.
    fn suggested(&self, (name, shape): &(String, Shape)) -> String {
        let missing = self.missing.iter().chain(&self.missing_head);
        let alike = missing.filter(|(_, wanted)| wanted.dims() == shape.dims());
        let ranked = alike.map(|(wanted, _)| (strsim::osa_distance(name, wanted), wanted));
        match ranked.min().filter(|(distance, _)| *distance <= 2) {
            Some((_, wanted)) => format!("{name} {shape} (did you mean {wanted}?)"),
            None => format!("{name} {shape}"),
        }
    }
}

fn is_beside(name: &str) -> bool {
    BESIDE.contains(&name.rsplit('.').next().unwrap_or(name))
}

fn is_under(name: &str, modules: &[&str]) -> bool {
    modules.iter().any(|module| name.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// A line with the counts, then a few names of everything that is not right.
impl fmt::Display for Matching {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{} matched, {} missing, {} unexpected, {} of another shape",
            self.matched.len(),
            self.missing.len() + self.missing_head.len(),
            self.unexpected.len(),
            self.other_shape.len() + self.other_head.len(),
        )?;
        let named = |list: &[(String, Shape)]| list.iter().map(|(name, shape)| format!("{name} {shape}")).collect();
        let shapes = |list: &[OtherShape]| list.iter().map(OtherShape::to_string).collect();
        if let [(first, _), ..] = &self.new_adapters[..] {
            write!(f, "\n  {} tensors of adapters are new, such as {first}", self.new_adapters.len())?;
        }
        section(f, "missing in the file", named(&self.missing))?;
        section(f, "unknown to the model", self.unexpected.iter().map(|unknown| self.suggested(unknown)).collect())?;
        section(f, "another shape", shapes(&self.other_shape))?;
        section(f, "head that the file lacks", named(&self.missing_head))?;
        section(f, "head of another size", shapes(&self.other_head))
    }
}

impl fmt::Display for OtherShape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} (the model has {}, the file {})", self.name, self.wanted, self.found)
    }
}

fn section(f: &mut fmt::Formatter, title: &str, items: Vec<String>) -> fmt::Result {
    const SHOWN: usize = 8;
    if items.is_empty() {
        return Ok(());
    }
    write!(f, "\n  {title}: {}", items[..items.len().min(SHOWN)].join(", "))?;
    if items.len() > SHOWN {
        write!(f, " and {} more", items.len() - SHOWN)?;
    }
    Ok(())
}
