//! What the masks of a data set mean: a single class that is marked, or the numbers of several classes.

use super::mask_values::{Evidence, MaskFile, MaskProblem, listed};
use crate::decode::{DecodeOptions, decode_indexed_png};
use crate::{DataError, IGNORED, LabelMask};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// The most classes that masks of 8 bits can have beside [`IGNORED`].
pub(super) const MOST_CLASSES: usize = 255;
/// Class numbers that were counted up to here may have gaps; beyond, most of them must be used.
const GAPS_BELOW: usize = 64;
/// Masks that are read ahead where the classes are known.
const SAMPLED: usize = 64;

/// How masks are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskRules {
    /// How many classes there are, or 1 for a single one that is marked; what the masks hold if not given.
    pub classes: Option<usize>,
    /// The value of pixels that are not counted.
    pub ignore: u8,
    /// 0 is not counted either, and the classes begin with the value 1.
    pub from_one: bool,
}

impl Default for MaskRules {
    fn default() -> MaskRules {
        MaskRules { classes: None, ignore: IGNORED, from_one: false }
    }
}

/// From the values of mask files to labels.
#[derive(Clone)]
pub(super) enum MaskForm {
    /// 0 and 1.
    Marked,
    /// The label of every value; none where no class has that value.
    Classes(Box<[Option<u8>; 256]>),
}

impl MaskForm {
    /// Values are class numbers, and some are ignored.
    pub fn numbered(classes: usize, rules: &MaskRules) -> MaskForm {
        let label = |value: usize| match value.checked_sub(usize::from(rules.from_one)) {
            _ if value == usize::from(rules.ignore) => Some(IGNORED),
            None => Some(IGNORED),
            Some(class) => (class < classes).then_some(class as u8),
        };
        MaskForm::Classes(Box::new(std::array::from_fn(label)))
    }

    /// The labels in the contents of a mask file.
    pub fn decode(&self, bytes: &[u8], options: &DecodeOptions) -> Result<LabelMask, MaskProblem> {
        let file = MaskFile::decode(bytes, options)?;
        let labels = match self {
            MaskForm::Marked => return file.marks().map(LabelMask::marked),
            MaskForm::Classes(labels) => labels,
        };
        let numbers = file.numbers()?;
        if let Some(at) = numbers.values().iter().position(|&value| labels[usize::from(value)].is_none()) {
            let (value, row, column) = (numbers.values()[at], at / numbers.width(), at % numbers.width());
            let known: BTreeSet<u8> = (0..=255).filter(|&value| labels[usize::from(value)].is_some()).collect();
            return Err(MaskProblem::Values(format!(
                "the value {value} at row {row}, column {column} is no class; known values are {}",
                in_ranges(&known)
            )));
        }
        Ok(LabelMask::of_classes(numbers.map(|value| labels[usize::from(value)].unwrap_or(IGNORED))))
    }

    /// How the masks in shards are to be read. Their folder names the classes as [`write_names`](super::write_names) does;
    /// of two, masks with a palette hold both and others mark the second. `contents` are the masks, each with its shard.
    pub fn of_shards<'a>(
        contents: impl Iterator<Item = (&'a Path, &'a [u8])>,
        names: usize,
        options: &DecodeOptions,
    ) -> Result<(MaskForm, usize), DataError> {
        let mut contents = contents.peekable();
        let Some((_, first)) = contents.peek() else { return Ok((MaskForm::Marked, 1)) };
        let has_palette = decode_indexed_png(first, &options.limits).is_ok_and(|indexed| indexed.is_some());
        match names {
            0 | 1 => {}
            2 if !has_palette => return Ok((MaskForm::Marked, 1)),
            names => return Ok((MaskForm::numbered(names, &MaskRules::default()), names)),
        }
        let evidence = |(path, bytes)| Some((path, MaskFile::decode(bytes, options).ok()?.evidence()));
        let seen: Vec<(&Path, Evidence)> = contents.filter_map(evidence).collect();
        let seen: Vec<(&Path, &Evidence)> = seen.iter().map(|(path, evidence)| (*path, evidence)).collect();
        Self::of_evidence(&seen, None, &MaskRules::default())
    }

    /// The labels of a mask file.
    pub fn read(&self, path: &Path, options: &DecodeOptions) -> Result<LabelMask, DataError> {
        let bytes = std::fs::read(path).map_err(|error| DataError::io(path, error))?;
        self.decode(&bytes, options).map_err(|problem| explained(path, problem))
    }

    /// How masks are to be read, by what they hold, and how many classes they have. `named` is the number of names that the
    /// data set gives its classes. Where the number is known, only some masks are read here; the others are checked when their
    /// samples are read.
    pub fn of_files(
        masks: &[&Path],
        named: Option<usize>,
        rules: &MaskRules,
        options: &DecodeOptions,
    ) -> Result<(MaskForm, usize), DataError> {
        let classes = rules.classes.or(named);
        let step = if classes.is_some() { masks.len().div_ceil(SAMPLED).max(1) } else { 1 };
        let read: Vec<&Path> = masks.iter().step_by(step).copied().collect();
        let seen = evidence_of(&read, options);
        let seen: Vec<(&Path, &Evidence)> =
            read.iter().zip(&seen).filter_map(|(path, seen)| Some((*path, seen.as_ref()?))).collect();
        Self::of_evidence(&seen, classes, rules)
    }

    /// The same by what was found in files.
    pub fn of_evidence(
        seen: &[(&Path, &Evidence)],
        classes: Option<usize>,
        rules: &MaskRules,
    ) -> Result<(MaskForm, usize), DataError> {
        let refused = |path: &Path, problem: String| Err(DataError::Mismatch { path: path.into(), problem });
        let first = |is: fn(&Evidence) -> bool| seen.iter().find(|(_, evidence)| is(evidence)).map(|(path, _)| *path);
        if let Some(&(path, Evidence::Colors(count))) =
            seen.iter().find(|(_, seen)| matches!(seen, Evidence::Colors(_)))
        {
            return refused(
                path,
                format!(
                    "the mask has {count} colors without a palette, so its class numbers are not known; write masks with a \
                     palette, or gray ones whose values are class numbers"
                ),
            );
        }
        let soft = first(|evidence| *evidence == Evidence::Soft);
        let numbered = first(|evidence| matches!(evidence, Evidence::Numbers(_)));
        let mut values = BTreeSet::new();
        for (_, evidence) in seen {
            if let Evidence::TwoValues(own) | Evidence::Numbers(own) = evidence {
                values.extend(own);
            }
        }
        let is_black_and_white =
            !values.is_empty() && values.iter().all(|value| [0, 255].contains(value)) && values.contains(&255);
        let counted: BTreeSet<u8> = values.iter().copied().filter(|&value| value != rules.ignore).collect();
        let largest = counted.last().copied().map_or(0, usize::from);
        let is_of_one_class =
            |form: (MaskForm, usize)| match *rules == (MaskRules { classes: rules.classes, ..MaskRules::default() }) {
                true => Ok(form),
                false => Err(DataError::request(
                    "the masks mark a single class, so `data.ignore` and `data.from_one` have no effect; remove them",
                )),
            };
        match classes {
            Some(0) => Err(DataError::request("masks cannot have 0 classes")),
            Some(1) => match numbered {
                Some(path) => refused(
                    path,
                    format!("masks of a single class have two values, but here there are {}", listed(&values)),
                ),
                None => is_of_one_class((MaskForm::Marked, 1)),
            },
            Some(classes) if classes > MOST_CLASSES => {
                Err(DataError::request(format!("masks of 8 bits have at most {MOST_CLASSES} classes, not {classes}")))
            }
            Some(classes) => {
                match soft.or_else(|| seen.first().map(|(path, _)| *path).filter(|_| is_black_and_white)) {
                    Some(path) => refused(
                        path,
                        format!(
                            "it is drawn in black and white, but the data has {classes} classes; write masks whose values are \
                         class numbers from 0 to {}",
                            classes - 1
                        ),
                    ),
                    None => Ok((MaskForm::numbered(classes, rules), classes)),
                }
            }
            // Two values in every file may still be several classes, two in each.
            None if !rules.from_one
                && numbered.is_none()
                && (values.len() <= 2 || counted.iter().all(|value| [0, 1].contains(value))) =>
            {
                is_of_one_class((MaskForm::Marked, 1))
            }
            None => {
                if let Some(soft) = soft {
                    let other = numbered.map(|path| format!(" such as {}", path.display())).unwrap_or_default();
                    return refused(
                        soft,
                        format!("it is drawn in black and white, but other masks{other} hold class numbers"),
                    );
                }
                if largest >= GAPS_BELOW && counted.len() * 2 < largest {
                    let path = numbered.unwrap_or(seen[0].0);
                    let problem = format!(
                        "masks have the values {}, which are no class numbers from 0 on; set `classes` if they are",
                        in_ranges(&values)
                    );
                    return refused(path, problem);
                }
                let classes = largest + 1 - usize::from(rules.from_one);
                Ok((MaskForm::numbered(classes, rules), classes))
            }
        }
    }
}

/// Values as text, neighbors together: `0–20 and 255`.
fn in_ranges(values: &BTreeSet<u8>) -> String {
    let mut ranges: Vec<(u8, u8)> = Vec::new();
    for &value in values {
        match ranges.last_mut() {
            Some((_, last)) if value - *last == 1 => *last = value,
            _ => ranges.push((value, value)),
        }
    }
    let text = |(from, to): &(u8, u8)| if from == to { from.to_string() } else { format!("{from}–{to}") };
    let texts: Vec<String> = ranges.iter().map(text).collect();
    match texts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => texts.concat(),
    }
}

pub(super) fn explained(path: &Path, problem: MaskProblem) -> DataError {
    match problem {
        MaskProblem::Damaged(problem) => DataError::malformed(path, problem),
        MaskProblem::Values(problem) => DataError::Mismatch { path: path.to_path_buf(), problem },
    }
}

/// What is known of a file as long as it has the same length and age.
type Known = HashMap<PathBuf, (u64, Option<SystemTime>, Evidence)>;

/// What each of these masks says, on all cores; nothing for files that cannot be read, which is reported when their samples
/// are. Splits of a folder without lists are opened several times with the same masks, so what was found is kept.
fn evidence_of(masks: &[&Path], options: &DecodeOptions) -> Vec<Option<Evidence>> {
    static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    let of_file = |path: &Path| -> Option<Evidence> {
        let facts = std::fs::metadata(path).ok()?;
        let state = (facts.len(), facts.modified().ok());
        let kept = known.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some((len, age, evidence)) = kept
            && (len, age) == state
        {
            return Some(evidence);
        }
        let evidence = MaskFile::decode(&std::fs::read(path).ok()?, options).ok()?.evidence();
        let entry = (state.0, state.1, evidence.clone());
        known.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_path_buf(), entry);
        Some(evidence)
    };
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let part = masks.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let of_part = |part: &[&Path]| part.iter().map(|path| of_file(path)).collect::<Vec<_>>();
        let running: Vec<_> = masks.chunks(part).map(|part| scope.spawn(move || of_part(part))).collect();
        let joined = |thread: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().flat_map(joined).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(seen: &[Evidence], classes: Option<usize>) -> Result<usize, String> {
        let path = Path::new("m.png");
        let seen: Vec<(&Path, &Evidence)> = seen.iter().map(|evidence| (path, evidence)).collect();
        MaskForm::of_evidence(&seen, classes, &MaskRules::default())
            .map(|(_, classes)| classes)
            .map_err(|error| error.to_string())
    }

    fn numbers(values: &[u8]) -> Evidence {
        Evidence::Numbers(values.iter().copied().collect())
    }

    fn two(values: &[u8]) -> Evidence {
        Evidence::TwoValues(values.iter().copied().collect())
    }

    #[test]
    fn the_number_of_classes_follows_from_all_masks_together() {
        for (seen, classes, wanted) in [
            (vec![two(&[0, 1]), two(&[0])], None, 1),
            (vec![two(&[0, 255]), Evidence::Soft, two(&[0, 1])], None, 1),
            // One class per image, several over all images.
            (vec![two(&[0, 3]), two(&[0, 5]), two(&[0])], None, 6),
            (vec![numbers(&[0, 1, 255])], None, 2),
            (vec![numbers(&[0, 7, 255]), two(&[0, 20])], None, 21),
            (vec![two(&[0, 1])], Some(2), 2),
            (vec![numbers(&(0..150).collect::<Vec<u8>>())], None, 150),
        ] {
            assert_eq!(form(&seen, classes), Ok(wanted), "{seen:?}");
        }
    }

    #[test]
    fn masks_that_do_not_fit_together_are_refused_with_the_file() {
        for (seen, classes, sentence) in [
            (vec![numbers(&[0, 1, 2]), Evidence::Soft], None, "black and white, but other masks such as m.png"),
            (vec![numbers(&[0, 127, 254])], None, "no class numbers from 0 on"),
            (vec![numbers(&[0, 1, 2])], Some(1), "two values, but here there are 0, 1, 2"),
            (vec![two(&[0, 255])], Some(4), "black and white, but the data has 4 classes"),
            (vec![Evidence::Colors(5)], None, "5 colors without a palette"),
            (vec![two(&[0, 1])], Some(256), "at most 255 classes"),
        ] {
            let problem = form(&seen, classes).unwrap_err();
            assert!(problem.contains(sentence), "{problem}");
        }
    }

    #[test]
    fn a_value_that_is_no_class_is_named_with_its_pixel() {
        use crate::{AnyImage, encode_png, encode_png_indexed};
        use octant_imaging::Image;
        let labels = Image::new(2, 3, 1, vec![0, 1, 2, 255, 4, 0]).unwrap();
        let form = MaskForm::numbered(3, &MaskRules::default());
        for bytes in [encode_png(&AnyImage::U8(labels.clone())).unwrap(), encode_png_indexed(&labels).unwrap()] {
            let problem = form.decode(&bytes, &DecodeOptions::default()).unwrap_err().to_string();
            assert_eq!(problem, "the value 4 at row 1, column 1 is no class; known values are 0–2 and 255");
            let wide = MaskForm::numbered(5, &MaskRules::default()).decode(&bytes, &DecodeOptions::default()).unwrap();
            assert_eq!(wide, LabelMask::of_classes(labels.clone()));
        }
        // Another value may be the one that is ignored; 255 is then none.
        let bytes = encode_png(&AnyImage::U8(Image::new(1, 3, 1, vec![0, 1, 2]).unwrap())).unwrap();
        for (rules, labels) in [
            (MaskRules { ignore: 0, ..MaskRules::default() }, [IGNORED, 1, 2]),
            (MaskRules { from_one: true, ..MaskRules::default() }, [IGNORED, 0, 1]),
        ] {
            let mask = MaskForm::numbered(3, &rules).decode(&bytes, &DecodeOptions::default()).unwrap();
            assert_eq!(mask.labels.values(), labels);
        }
    }
}
