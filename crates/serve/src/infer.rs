//! From the tensors of a request to those of its response.

use crate::error::{Reason, Refusal, invalid};
use crate::loaded::{IMAGES, Loaded, TENSORS, outside};
use crate::model::Model;
use crate::outputs;
use crate::protocol::{Data, DataType, InferRequest, InferResponse, Tensor};
use crate::queue::{Done, Job, Work};
use axum::body::Bytes;
use octant_imaging::Image;
use octant_predict::{Prediction, PreparedImage, RowShape};
use octant_tensor::HostTensor;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::block_in_place;

/// What all requests share: time, and processors for decoding.
pub(crate) struct Desk {
    /// The longest that a request may take.
    pub timeout: Duration,
    /// Requests that decode or encode at the same time: as many as processors, so that memory for pixels is bounded.
    pub processors: Semaphore,
}

impl Desk {
    /// Does what keeps a processor busy. Other requests continue on other threads.
    async fn busy<T>(&self, work: impl FnOnce() -> T) -> Result<T, Refusal> {
        let stopping = |_| Refusal::new(Reason::Unavailable, "the server is stopping");
        let _processor = self.processors.acquire().await.map_err(stopping)?;
        Ok(block_in_place(work))
    }

    /// Processes a request, and counts it.
    pub async fn infer(&self, model: &Model, version: &str, request: InferRequest) -> Result<InferResponse, Refusal> {
        let begun = Instant::now();
        self.counted(model, begun, self.respond(model, version, request, begun)).await
    }

    /// The prediction for one encoded image.
    pub async fn predict(&self, model: &Model, file: Bytes) -> Result<(Image<u8>, Prediction), Refusal> {
        let begun = Instant::now();
        let deadline = begun + self.timeout;
        let response = async {
            let loaded = model.loaded();
            let image = self.busy(|| loaded.predictor.read_bytes(&file)).await?;
            let image = image.map_err(|error| Refusal::of(&error))?;
            let mut made = self.predictions(model, &loaded, vec![image.clone()], deadline).await?;
            Ok((image, made.swap_remove(0)))
        };
        self.counted(model, begun, response).await
    }

    async fn counted<T>(
        &self,
        model: &Model,
        begun: Instant,
        response: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let response = response.await;
        match &response {
            Ok(_) => model.metrics.completed(begun.elapsed()),
            Err(refusal) => model.metrics.refused(refusal.reason),
        }
        response
    }

    async fn respond(
        &self,
        model: &Model,
        version: &str,
        request: InferRequest,
        begun: Instant,
    ) -> Result<InferResponse, Refusal> {
        let loaded = model.version(version)?;
        let InferRequest { id, mut inputs, outputs: wanted, timeout } = request;
        let deadline = begun + timeout.unwrap_or(self.timeout).min(self.timeout);
        let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
            return Err(invalid!("give one input: {}", takes(&loaded)));
        };
        let outputs = match (input.name.as_str(), input.datatype) {
            (TENSORS, DataType::Fp32) if loaded.tensors.is_some() => {
                self.tensors(model, &loaded, input, deadline).await?
            }
            (IMAGES, DataType::Bytes | DataType::Uint8) => {
                let images = self.busy(|| images(&loaded, input)).await??;
                let predictions = self.predictions(model, &loaded, images, deadline).await?;
                let output = loaded.predictor.network().output().map_err(|error| Refusal::of(&error))?;
                self.busy(|| outputs::tensors(&predictions, output)).await??
            }
            (name, datatype) => {
                return Err(invalid!(
                    "{} takes no input {name:?} of {}: {}",
                    model.name,
                    datatype.name(),
                    takes(&loaded)
                ));
            }
        };
        Ok(InferResponse { model: model.name.clone(), version: loaded.version, id, outputs: chosen(outputs, &wanted)? })
    }

    /// Predictions for images, through batches that other requests share.
    async fn predictions(
        &self,
        model: &Model,
        loaded: &Arc<Loaded>,
        images: Vec<Image<u8>>,
        deadline: Instant,
    ) -> Result<Vec<Prediction>, Refusal> {
        let failed = |error| Refusal::of(&error);
        let Some(shape) = loaded.predictor.image_rows() else {
            let work = images.into_iter().map(Work::Whole).collect();
            let whole = |done| match done {
                Done::Whole(prediction) => Ok(prediction),
                Done::Rows(..) => Err(Refusal::new(Reason::Failed, "a whole image came back as rows")),
            };
            return run(model, loaded, work, deadline).await?.into_iter().map(whole).collect();
        };
        let prepare = |image: Image<u8>| loaded.predictor.prepare(&image).map_err(failed);
        let prepared = self.busy(|| images.into_iter().map(prepare).collect::<Result<Vec<_>, _>>()).await??;
        let rows = prepared.iter().map(|image: &PreparedImage| Bytes::copy_from_slice(image.pixels())).collect();
        let results = self.rows(model, loaded, shape, rows, deadline).await?;
        let decode = || {
            let pairs = prepared.iter().zip(results.iter().flat_map(Part::rows));
            pairs
                .map(|(image, (result, row))| loaded.predictor.decode_row(result, row, image).map_err(failed))
                .collect()
        };
        self.busy(decode).await?
    }

    /// The network's output for normalized tensors.
    async fn tensors(
        &self,
        model: &Model,
        loaded: &Arc<Loaded>,
        input: Tensor,
        deadline: Instant,
    ) -> Result<Vec<Tensor>, Refusal> {
        let Some((shape, name)) = loaded.tensors else { return Err(invalid!("{}", takes(loaded))) };
        let axes = outside(&shape.image, loaded.channels_first);
        let (Some((&count, rest)), Data::Raw(bytes)) = (input.shape.split_first(), &input.data) else {
            return Err(invalid!("give one input: {}", takes(loaded)));
        };
        if rest != axes || count == 0 {
            return Err(invalid!("the shape of {TENSORS} is [N, {}], not {:?}", listed(&axes), input.shape));
        }
        let rows = self.busy(|| rows_of(bytes, &shape, loaded.channels_first)).await??;
        let results = self.rows(model, loaded, shape, rows, deadline).await?;
        let dims = results.first().map(|part| part.result.dims()[1..].to_vec()).unwrap_or_default();
        let parts = loaded.predictor.tensor_parts(name, &dims);
        let mut packed: Vec<Vec<u8>> = parts.iter().map(|_| Vec::new()).collect();
        for (result, row) in results.iter().flat_map(Part::rows) {
            let bytes = result.bytes();
            let row_bytes = bytes.len() / result.dims()[0].max(1);
            let mut row = &bytes[row * row_bytes..][..row_bytes];
            for ((_, dims), packed) in parts.iter().zip(&mut packed) {
                let (part, rest) = row.split_at(4 * dims.iter().product::<usize>());
                row = rest;
                match dims[..] {
                    [height, width, channels] if loaded.channels_first => {
                        channels_first(part, [height, width, channels], packed)
                    }
                    _ => packed.extend_from_slice(part),
                }
            }
        }
        let tensor = |((name, dims), packed): ((&str, Vec<usize>), Vec<u8>)| {
            let shape = std::iter::once(count).chain(outside(&dims, loaded.channels_first)).collect();
            Tensor { name: name.into(), datatype: DataType::Fp32, shape, data: Data::Raw(packed.into()) }
        };
        Ok(parts.into_iter().zip(packed).map(tensor).collect())
    }

    /// Rows through batches; a request of more rows than a batch takes is several jobs.
    async fn rows(
        &self,
        model: &Model,
        loaded: &Arc<Loaded>,
        shape: RowShape,
        rows: Vec<Bytes>,
        deadline: Instant,
    ) -> Result<Vec<Part>, Refusal> {
        let counts: Vec<usize> = rows.chunks(model.queue.max_batch()).map(<[Bytes]>::len).collect();
        let work = rows.chunks(model.queue.max_batch()).map(|rows| Work::Rows(shape, rows.to_vec())).collect();
        let done = run(model, loaded, work, deadline).await?;
        let part = |(done, count)| match done {
            Done::Rows(result, first) => Ok(Part { result, first, count }),
            Done::Whole(_) => Err(Refusal::new(Reason::Failed, "rows came back as a whole image")),
        };
        done.into_iter().zip(counts).map(part).collect()
    }
}

/// The rows of a batch that belong to a request.
struct Part {
    result: Arc<HostTensor>,
    first: usize,
    count: usize,
}

impl Part {
    fn rows(&self) -> impl Iterator<Item = (&HostTensor, usize)> {
        (self.first..self.first + self.count).map(move |row| (&*self.result, row))
    }
}

/// Puts work into the queue and waits for it until the deadline. When the client goes, this is dropped, and with it the
/// receivers, by which the queue knows.
async fn run(model: &Model, loaded: &Arc<Loaded>, work: Vec<Work>, deadline: Instant) -> Result<Vec<Done>, Refusal> {
    let queued = Instant::now();
    let (mut jobs, mut replies) = (Vec::with_capacity(work.len()), Vec::with_capacity(work.len()));
    for work in work {
        let (reply, receiver) = oneshot::channel();
        jobs.push(Job { loaded: loaded.clone(), work, deadline, queued, reply });
        replies.push(receiver);
    }
    model.queue.submit(jobs)?;
    let mut done = Vec::with_capacity(replies.len());
    for reply in replies {
        let reply = tokio::time::timeout_at(deadline.into(), reply).await;
        let reply = reply.map_err(|_| Refusal::new(Reason::Late, "the deadline passed before there was a result"))?;
        done.push(reply.map_err(|_| Refusal::new(Reason::Unavailable, "the server is stopping"))??);
    }
    Ok(done)
}

fn listed(dims: &[usize]) -> String {
    dims.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// What a model takes, in words.
fn takes(loaded: &Loaded) -> String {
    let axes = |shape: &RowShape| listed(&outside(&shape.image, loaded.channels_first));
    let tensors =
        loaded.tensors.iter().map(|(shape, _)| format!("\"{TENSORS}\" FP32 [N, {}], normalized, or ", axes(shape)));
    let tensors: String = tensors.collect();
    format!("{tensors}\"{IMAGES}\" BYTES [N], encoded images, or UINT8 [N, height, width, channels]")
}

/// The images of an input: files, or pixels.
fn images(loaded: &Loaded, input: Tensor) -> Result<Vec<Image<u8>>, Refusal> {
    match (input.data, &input.shape[..]) {
        (Data::Strings(files), _) if !files.is_empty() => {
            files.iter().map(|file| loaded.predictor.read_bytes(file).map_err(|error| Refusal::of(&error))).collect()
        }
        (Data::Raw(bytes), &[count, height, width, channels]) if count > 0 && !bytes.is_empty() => {
            let image = |pixels: &[u8]| Image::new(height, width, channels, pixels.to_vec());
            let images = bytes.chunks_exact(bytes.len() / count).map(image);
            images.collect::<Result<Vec<_>, _>>().map_err(|error| invalid!("{error}"))
        }
        _ => Err(invalid!("the request has no image: {}", takes(loaded))),
    }
}

/// The rows of a tensor, with channels last.
fn rows_of(bytes: &Bytes, shape: &RowShape, is_channels_first: bool) -> Result<Vec<Bytes>, Refusal> {
    if let Some(at) = first_not_finite(bytes) {
        return Err(invalid!("element {at} of {TENSORS} is not finite"));
    }
    // A row without channels in front is a part of the request; no copy is made.
    let size = shape.bytes().max(1);
    let [height, width, channels] = shape.image;
    let row = |at: usize| match is_channels_first {
        false => bytes.slice(at..at + size),
        true => {
            let mut row = Vec::with_capacity(size);
            channels_last(&bytes[at..at + size], [height, width, channels], &mut row);
            row.into()
        }
    };
    Ok((0..bytes.len()).step_by(size).map(row).collect())
}

/// The first f32 element that is infinite or no number. All elements of a block are looked at together, in vectors.
fn first_not_finite(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 1024;
    const EXPONENT: u32 = 0x7f80_0000;
    let (elements, _) = bytes.as_chunks::<4>();
    let is_finite = |element: &[u8; 4]| u32::from_le_bytes(*element) & EXPONENT != EXPONENT;
    let are_finite = |block: &[[u8; 4]]| block.iter().fold(true, |all, element| all & is_finite(element));
    let block = elements.chunks(BLOCK).position(|block| !are_finite(block))?;
    let first = block * BLOCK;
    elements[first..].iter().position(|element| !is_finite(element)).map(|at| first + at)
}

/// Appends f32 elements `[C, H, W]` as `[H, W, C]`.
fn channels_last(row: &[u8], [height, width, channels]: [usize; 3], out: &mut Vec<u8>) {
    transposed(row, channels, height * width, out);
}

/// Appends f32 elements `[H, W, C]` as `[C, H, W]`.
fn channels_first(row: &[u8], [height, width, channels]: [usize; 3], out: &mut Vec<u8>) {
    transposed(row, height * width, channels, out);
}

/// Appends the transpose of `rows × columns` elements of four bytes.
fn transposed(elements: &[u8], rows: usize, columns: usize, out: &mut Vec<u8>) {
    /// Columns whose transpose stays in the first-level cache while all rows are written into it.
    const BLOCK: usize = 1024;
    let (elements, _) = elements.as_chunks::<4>();
    let start = out.len();
    out.resize(start + 4 * rows * columns, 0);
    let (transpose, _) = out[start..].as_chunks_mut::<4>();
    for (block, target) in transpose.chunks_mut(BLOCK * rows.max(1)).enumerate() {
        let first = block * BLOCK;
        for row in 0..rows {
            let from = &elements[row * columns + first..][..target.len() / rows];
            from.iter().zip(target[row..].iter_mut().step_by(rows)).for_each(|(element, slot)| *slot = *element);
        }
    }
}

/// The outputs that a request names, in its order; all if it names none.
fn chosen(mut outputs: Vec<Tensor>, wanted: &[String]) -> Result<Vec<Tensor>, Refusal> {
    if wanted.is_empty() {
        return Ok(outputs);
    }
    let names: Vec<String> = outputs.iter().map(|output| output.name.clone()).collect();
    let mut chosen = Vec::with_capacity(wanted.len().min(names.len()));
    for name in wanted {
        match outputs.iter().position(|output| output.name == *name) {
            Some(index) => chosen.push(outputs.remove(index)),
            None if names.contains(name) => return Err(invalid!("output {name:?} is named twice")),
            None => return Err(invalid!("for this input there is no output {name:?}, but {}", names.join(", "))),
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_element_that_is_not_finite_is_found() {
        let mut numbers = vec![1.0_f32; 5000];
        let bytes = |numbers: &[f32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(first_not_finite(&bytes(&numbers)), None);
        assert_eq!(first_not_finite(&bytes(&[f32::MAX, f32::MIN_POSITIVE / 2.0, -0.0])), None);
        numbers[4321] = f32::NAN;
        assert_eq!(first_not_finite(&bytes(&numbers)), Some(4321));
        numbers[3000] = f32::NEG_INFINITY;
        assert_eq!(first_not_finite(&bytes(&numbers)), Some(3000));
    }

    #[test]
    fn rows_longer_than_a_block_are_transposed() {
        let numbers: Vec<u32> = (0..3 * 2500).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut transpose = Vec::new();
        transposed(&bytes, 3, 2500, &mut transpose);
        let (elements, _) = transpose.as_chunks::<4>();
        let expected = |at: usize| (at % 3 * 2500 + at / 3) as u32;
        assert!(elements.iter().enumerate().all(|(at, element)| u32::from_le_bytes(*element) == expected(at)));
    }

    #[test]
    fn transposing_there_and_back_is_the_same_row() {
        let row: Vec<u8> = (0..2 * 3 * 4 * 4).map(|byte| byte as u8).collect();
        let (mut last, mut first) = (Vec::new(), Vec::new());
        channels_last(&row, [3, 4, 2], &mut last);
        channels_first(&last, [3, 4, 2], &mut first);
        assert_eq!(row, first);
        // The first pixel has the first element of each channel.
        assert_eq!(last[..8], [&row[..4], &row[3 * 4 * 4..][..4]].concat());
    }
}
