//! Many files through a predictor: one that cannot be read does not end the others.

use crate::error::Result;
use crate::video::{Encoder, Frames};
use crate::writer::{ResultWriter, Written};
use crate::{Cancel, Output, PredictError, Prediction, Predictor, Source};
use octant_imaging::Image;
use std::path::Path;

/// Files per call of the predictor.
const TOGETHER: usize = 8;

/// What a job reports while it runs.
pub enum JobEvent<'a> {
    /// A prediction, and the files that belong to it.
    Predicted(&'a Prediction, &'a [Written]),
    /// A file that could not be read, predicted or written about.
    Failed(&'a Path, &'a PredictError),
}

impl Predictor {
    /// Predicts files and writes what belongs to them. Returns how many failed; each was reported.
    pub fn run_job(
        &self,
        sources: &[Source],
        writer: &mut ResultWriter,
        cancel: &Cancel,
        report: &mut dyn FnMut(JobEvent),
    ) -> Result<usize> {
        let mut failed = 0;
        let mut fail = |source: &Source, error: PredictError, report: &mut dyn FnMut(JobEvent)| {
            failed += 1;
            report(JobEvent::Failed(&source.path, &error));
        };
        let (videos, images): (Vec<&Source>, Vec<&Source>) = sources.iter().partition(|source| source.is_video());
        for part in images.chunks(TOGETHER) {
            cancel.check()?;
            let (mut read, mut pixels): (Vec<&Source>, Vec<Image<u8>>) = Default::default();
            for source in part {
                match self.read(&source.path) {
                    Ok(image) => {
                        read.push(source);
                        pixels.push(image);
                    }
                    Err(error) => fail(source, error, report),
                }
            }
            let predictions = self.predict_images(&pixels, cancel)?;
            for ((source, image), prediction) in read.into_iter().zip(&pixels).zip(predictions) {
                let prediction = Prediction { path: Some(source.path.clone()), ..prediction };
                match writer.write(&prediction, image, &source.name, None) {
                    Ok(written) => report(JobEvent::Predicted(&prediction, &written)),
                    Err(error) => fail(source, error, report),
                }
            }
        }
        for source in videos {
            if let Err(error) = self.run_video(source, writer, cancel, report) {
                if matches!(error, PredictError::Cancelled) {
                    return Err(error);
                }
                fail(source, error, report);
            }
        }
        Ok(failed)
    }

    /// The frames of a video, and a video with the predictions drawn.
    fn run_video(
        &self,
        source: &Source,
        writer: &mut ResultWriter,
        cancel: &Cancel,
        report: &mut dyn FnMut(JobEvent),
    ) -> Result<()> {
        let mut frames = Frames::open(&source.path)?;
        let drawn = writer.file(&source.name, "mp4")?;
        let mut encoder: Option<Encoder> = None;
        let mut number = 0;
        loop {
            let mut images = Vec::with_capacity(TOGETHER);
            while images.len() < TOGETHER
                && let Some(frame) = frames.next()?
            {
                images.push(frame);
            }
            if images.is_empty() {
                return encoder.map_or(Ok(()), Encoder::finish);
            }
            for (image, prediction) in images.iter().zip(self.predict_images(&images, cancel)?) {
                number += 1;
                let prediction = Prediction { path: Some(source.path.clone()), frame: Some(number), ..prediction };
                let name = source.name.join(format!("{number:06}"));
                let written = match (&prediction.output, prediction.draw(image)) {
                    // Boxes and images become a video; only now is it certain that there is something to write.
                    (Output::Boxes(_) | Output::Image(_), Some(shown)) => {
                        let encoder = match &mut encoder {
                            Some(encoder) => encoder,
                            none => none.insert(Encoder::create(&drawn, frames.rate)?),
                        };
                        encoder.write(&shown)?;
                        match prediction.output {
                            Output::Boxes(_) => writer.write(&prediction, image, &name, Some(&drawn))?,
                            _ => vec![("made", drawn.clone())],
                        }
                    }
                    _ => writer.write(&prediction, image, &name, None)?,
                };
                report(JobEvent::Predicted(&prediction, &written));
            }
        }
    }
}
