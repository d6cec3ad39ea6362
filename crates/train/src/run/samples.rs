//! What the network makes of a few validation images, drawn after every validation: the same images every time, so that
//! progress can be seen.

use super::Runner;
use crate::step::{StepOptions, StepPlan};
use crate::{Phase, Session, TrainError};
use octant_events::{Canvas, Value};
use octant_graph::HostTensor;
use octant_imaging::Image;

/// The sides that a column may have in the drawing: smaller images are enlarged, larger ones shrunk.
const SIDES: [usize; 2] = [96, 256];
const GAP: usize = 4;
const CAPTION: usize = 24;
const INK: [u8; 3] = [40; 3];

impl<'p> Runner<'p, '_> {
    /// Prepares the drawing, where the task has something to show.
    pub(super) fn watch_samples(&self, step: &StepPlan, session: &mut Session) -> Result<(), TrainError> {
        let batch_size = self.plan.run.samples.min(self.plan.valid.len());
        if batch_size == 0 {
            return Ok(());
        }
        let step = StepPlan { step: StepOptions { batch_size, ..step.step.clone() }, ..step.clone() };
        session.watch_samples(&step, &self.plan.compile)
    }

    /// Columns of images by name; none where there is nothing to show.
    pub(super) fn samples(
        &self,
        phase: &Phase,
        session: &mut Session,
    ) -> Result<Vec<(&'static str, HostTensor)>, TrainError> {
        if !session.shows_samples() {
            return Ok(Vec::new());
        }
        let count = self.plan.run.samples.min(self.plan.valid.len());
        let loader = self.loader_of(false, phase, count, 0..count)?;
        let none = || TrainError::Data("there are no validation images".into());
        session.samples(&loader.epoch(0).next().ok_or_else(none)??)
    }

    /// Writes the drawing as the event `samples`, and the first output by itself as `sample`.
    pub(super) fn write_samples(&mut self, phase: &Phase, session: &mut Session, epoch: u64) -> Result<(), TrainError> {
        let columns = self.samples(phase, session)?;
        let columns: Vec<(&str, Vec<Image<u8>>)> =
            columns.into_iter().map(|(name, tensor)| (name, images(&tensor))).collect();
        let mut values = Vec::new();
        if let Some(canvas) = drawn(&columns) {
            values.push(("samples".to_string(), event(&canvas)));
        }
        let output = columns.iter().find(|(name, _)| *name == "output").and_then(|(_, images)| images.first());
        if let Some(output) = output {
            let size = [output.width(), output.height()];
            let mut canvas = Canvas::new(size[0], size[1]);
            canvas.scaled_image([0, 0], size, output);
            values.push(("sample".to_string(), event(&canvas)));
        }
        if values.is_empty() { Ok(()) } else { Ok(self.directory.events.values(epoch, values)?) }
    }
}

fn event(canvas: &Canvas) -> Value {
    let [width, height] = canvas.size();
    Value::Image { height, width, png: canvas.png() }
}

/// The rows of `[n, h, w, c]`; none of anything else.
fn images(tensor: &HostTensor) -> Vec<Image<u8>> {
    let (&[_, height, width, channels], Ok(bytes)) = (tensor.dims(), tensor.elements::<u8>()) else {
        return Vec::new();
    };
    let rows = bytes.chunks_exact((height * width * channels).max(1));
    rows.filter_map(|row| Image::new(height, width, channels, row.to_vec()).ok()).collect()
}

/// A row per sample, a column per name.
fn drawn(columns: &[(&str, Vec<Image<u8>>)]) -> Option<Canvas> {
    let widest = columns.iter().filter_map(|(_, images)| images.first()).max_by_key(|image| image.width())?;
    let [height, width, _] = widest.dims();
    let wide = match width {
        width if width < SIDES[0] => width * SIDES[0].div_ceil(width.max(1)),
        width => width.min(SIDES[1]),
    };
    let tall = (height * wide / width.max(1)).max(1);
    let rows = columns.iter().map(|(_, images)| images.len()).max()?;
    let mut canvas = Canvas::new(columns.len() * (wide + GAP) + GAP, CAPTION + rows * (tall + GAP));
    for (column, (name, images)) in columns.iter().enumerate() {
        let x = GAP + column * (wide + GAP);
        canvas.letters([x, 2], name, INK);
        for (row, image) in images.iter().enumerate() {
            canvas.scaled_image([x, CAPTION + row * (tall + GAP)], [wide, tall], image);
        }
    }
    Some(canvas)
}
