//! TensorBoard's requests, and the responses.

use super::messages::*;
use super::modern::{self, DataClass};
use crate::run::Run;
use crate::store::Store;
use crate::values::Tag;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::Status;

const LARGEST: u64 = 1 << 28;
/// How long a first question waits for the first pass over the files, which takes less than that for millions of points.
const PATIENCE: Duration = Duration::from_secs(2);

/// Responds from a store.
pub struct Provider {
    store: Arc<Store>,
    location: String,
    samples: Vec<(String, Option<usize>)>,
}

impl Provider {
    pub fn new(store: Arc<Store>, location: String, samples: Vec<(String, Option<usize>)>) -> Provider {
        Provider { store, location, samples }
    }

    /// TensorBoard sends its request as soon as it can, and shows an empty page when the response is empty.
    fn store(&self) -> &Store {
        let begun = Instant::now();
        while !self.store.is_ready() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        &self.store
    }

    pub fn experiment(&self, _: ExperimentRequest) -> Result<GetExperimentResponse, Status> {
        Ok(GetExperimentResponse { data_location: self.location.clone() })
    }

    pub fn plugins(&self, _: ExperimentRequest) -> Result<ListPluginsResponse, Status> {
        let tags = self.store().runs().into_iter().flat_map(|run| run.tags());
        let names: BTreeSet<String> = tags.map(|tag| tag.plugin).filter(|plugin| !plugin.is_empty()).collect();
        Ok(ListPluginsResponse { plugins: names.into_iter().map(|name| Name { name }).collect() })
    }

    pub fn runs(&self, _: ExperimentRequest) -> Result<ListRunsResponse, Status> {
        let runs = self.store().runs();
        let listed = runs.iter().filter_map(|run| Some(RunName { name: self.name(run), start_time: run.began()? }));
        let mut runs: Vec<RunName> = listed.collect();
        runs.sort_by(|a, b| a.start_time.total_cmp(&b.start_time).then_with(|| a.name.cmp(&b.name)));
        Ok(ListRunsResponse { runs })
    }

    /// TensorBoard calls the folder itself a dot.
    fn name(&self, run: &Run) -> String {
        let is_root = self.store.roots().iter().any(|(_, root)| root == run.path());
        if is_root { ".".into() } else { run.name.clone() }
    }

    /// The runs and tags that a request is about.
    fn chosen(&self, request: &SeriesRequest, class: DataClass) -> Vec<(Arc<Run>, Vec<Tag>)> {
        let plugin = request.plugin_filter.as_ref().map_or("", |filter| filter.name.as_str());
        let filter = request.run_tag_filter.clone().unwrap_or_default();
        let is_in = |names: &Option<Names>, name: &str| {
            names.as_ref().is_none_or(|names| names.names.iter().any(|wanted| wanted == name))
        };
        let wanted = |tag: &Tag| tag.plugin == plugin && is_in(&filter.tags, &tag.name) && modern::class(tag) == class;
        let runs = self.store().runs().into_iter().filter(|run| is_in(&filter.runs, &self.name(run)));
        runs.map(|run| {
            let tags = run.tags().into_iter().filter(wanted).collect();
            (run, tags)
        })
        .collect()
    }

    pub fn list_scalars(&self, request: SeriesRequest) -> Result<ListSeriesResponse, Status> {
        Ok(self.list(&request, DataClass::Scalar))
    }

    pub fn list_tensors(&self, request: SeriesRequest) -> Result<ListSeriesResponse, Status> {
        Ok(self.list(&request, DataClass::Tensor))
    }

    fn list(&self, request: &SeriesRequest, class: DataClass) -> ListSeriesResponse {
        let mut response = ListSeriesResponse::default();
        for (run, tags) in self.chosen(request, class) {
            let listed = tags.into_iter().map(|tag| {
                let summary_metadata = modern::metadata(&tag);
                (tag.name, SeriesMetadata { max_step: tag.last_step, max_wall_time: tag.last_time, summary_metadata })
            });
            response.add(&self.name(&run), listed);
        }
        response
    }

    /// How many values to send: what is requested, within what the user allowed.
    fn most(&self, request: &SeriesRequest) -> Result<usize, Status> {
        let requested =
            request.downsample.as_ref().ok_or_else(|| Status::invalid_argument("downsample not specified"))?;
        let requested =
            usize::try_from(requested.num_points).map_err(|_| Status::invalid_argument("num_points is negative"))?;
        let plugin = request.plugin_filter.as_ref().map_or("", |filter| filter.name.as_str());
        let allowed = self.samples.iter().find(|(name, _)| name == plugin).and_then(|(_, most)| *most);
        Ok(requested.min(allowed.unwrap_or(usize::MAX)))
    }

    pub fn read_scalars(&self, request: SeriesRequest) -> Result<ReadScalarsResponse, Status> {
        let most = self.most(&request)?;
        let mut response = ReadScalarsResponse::default();
        for (run, tags) in self.chosen(&request, DataClass::Scalar) {
            let read = tags.into_iter().filter_map(|tag| {
                let data = run.with_current_numbers(&tag.name, |steps, times, numbers| {
                    let kept = thinned(steps.len(), most);
                    ScalarData {
                        step: kept.iter().map(|&index| steps[index]).collect(),
                        wall_time: kept.iter().map(|&index| times[index]).collect(),
                        value: kept.iter().map(|&index| numbers[index]).collect(),
                    }
                });
                Some((tag.name, data?))
            });
            response.add(&self.name(&run), read);
        }
        Ok(response)
    }

    pub fn read_tensors(&self, request: SeriesRequest) -> Result<ReadTensorsResponse, Status> {
        let most = self.most(&request)?;
        let mut response = ReadTensorsResponse::default();
        for (run, tags) in self.chosen(&request, DataClass::Tensor) {
            let read = tags.into_iter().map(|tag| {
                let stored = run.current(&tag.name);
                let mut data = TensorData::default();
                for value in thinned(stored.len(), most).into_iter().map(|index| &stored[index]) {
                    // A value that was damaged or cut away since is left out.
                    let Ok(bytes) = value.read(LARGEST) else { continue };
                    data.step.push(value.step);
                    data.wall_time.push(value.time);
                    data.value.push(modern::tensor(&bytes, tag.kind));
                }
                (tag.name, data)
            });
            response.add(&self.name(&run), read);
        }
        Ok(response)
    }

    pub fn list_blobs(&self, request: SeriesRequest) -> Result<ListBlobsResponse, Status> {
        let mut response = ListBlobsResponse::default();
        for (run, tags) in self.chosen(&request, DataClass::Blobs) {
            let listed = tags.into_iter().map(|tag| {
                let parts = most_parts(&run, &tag.name, |value| modern::blobs(value, &tag).len());
                let metadata = BlobMetadata {
                    max_step: tag.last_step,
                    max_wall_time: tag.last_time,
                    max_length: parts as i64,
                    summary_metadata: modern::metadata(&tag),
                };
                (tag.name, metadata)
            });
            response.add(&self.name(&run), listed);
        }
        Ok(response)
    }

    pub fn read_blobs(&self, request: SeriesRequest) -> Result<ReadBlobsResponse, Status> {
        let most = self.most(&request)?;
        let mut response = ReadBlobsResponse::default();
        for (run, tags) in self.chosen(&request, DataClass::Blobs) {
            let read = tags.into_iter().map(|tag| {
                let stored = run.current(&tag.name);
                let mut data = BlobData::default();
                for index in thinned(stored.len(), most) {
                    let Ok(bytes) = stored[index].read(LARGEST) else { continue };
                    let key = |part| BlobKey { run: run.id, index, part, tag: tag.name.clone() };
                    let parts = 0..modern::blobs(&bytes, &tag).len();
                    data.step.push(stored[index].step);
                    data.wall_time.push(stored[index].time);
                    data.values.push(BlobReferences {
                        blob_refs: parts.map(|part| Name { name: key(part).to_string() }).collect(),
                    });
                }
                (tag.name, data)
            });
            response.add(&self.name(&run), read);
        }
        Ok(response)
    }

    pub fn read_blob(&self, key: &str) -> Result<Vec<u8>, Status> {
        let missing = || Status::not_found("there is no such blob");
        let key = BlobKey::parse(key).ok_or_else(|| Status::invalid_argument("this is not the key of a blob"))?;
        let run = self.store.run(key.run).ok_or_else(missing)?;
        let tag = run.tags().into_iter().find(|tag| tag.name == key.tag).ok_or_else(missing)?;
        let stored = run.current(&tag.name);
        let value = stored.get(key.index).ok_or_else(missing)?;
        let bytes = value.read(LARGEST).map_err(|error| Status::data_loss(error.to_string()))?;
        modern::blobs(&bytes, &tag).into_iter().nth(key.part).ok_or_else(missing)
    }
}

/// The key of a blob: which run, which tag, which value, which of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BlobKey {
    run: u32,
    index: usize,
    part: usize,
    tag: String,
}

impl BlobKey {
    fn parse(text: &str) -> Option<BlobKey> {
        let mut parts = text.splitn(4, '.');
        let mut number = || parts.next()?.parse::<usize>().ok();
        let (run, index, part) = (number()?, number()?, number()?);
        let tag = parts.next()?.to_string();
        Some(BlobKey { run: u32::try_from(run).ok()?, index, part, tag })
    }
}

impl std::fmt::Display for BlobKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}.{}.{}", self.run, self.index, self.part, self.tag)
    }
}

/// How many parts the values of a tag have at most: as many as the first, the last and one between.
fn most_parts(run: &Arc<Run>, tag: &str, parts: impl Fn(&[u8]) -> usize) -> usize {
    let stored = run.current(tag);
    let some = [0, stored.len() / 2, stored.len().saturating_sub(1)];
    let counts = some.iter().filter_map(|&index| stored.get(index)?.read(1 << 28).ok()).map(|value| parts(&value));
    counts.max().unwrap_or(0)
}

/// The indices of at most so many values, evenly spread; the last one is always among them.
fn thinned(count: usize, most: usize) -> Vec<usize> {
    match most {
        0 => Vec::new(),
        _ if count <= most => (0..count).collect(),
        1 => vec![count - 1],
        _ => (0..most).map(|index| (index as u128 * (count - 1) as u128 / (most - 1) as u128) as usize).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_last() {
        assert_eq!(thinned(3, 10), [0, 1, 2]);
        assert_eq!(thinned(100, 1), [99]);
        assert_eq!(thinned(100, 3), [0, 49, 99]);
        assert!(thinned(100, 0).is_empty());
        assert!(thinned(0, 5).is_empty());
    }

    #[test]
    fn keys_are_read_back_with_any_tag() {
        let key = BlobKey { run: 3, index: 14, part: 2, tag: "a.b/c d.%".into() };
        assert_eq!(BlobKey::parse(&key.to_string()), Some(key));
        for wrong in ["", "1.2.3", "a.1.2.x", "-1.0.0.x", "99999999999999.0.0.x"] {
            assert_eq!(BlobKey::parse(wrong), None, "{wrong:?}");
        }
    }
}
