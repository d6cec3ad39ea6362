//! Back from what the network saw to the image it came from: masks and boxes belong to the latter.

use super::{Pipeline, StepGroup, TransformStep};
use octant_imaging::Image;
use octant_imaging::resize::{fit_long_side, fit_short_side};

/// Where an image lies in what a pipeline made of it: new = scale × old + offset, per axis (rows, columns).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed {
    old: [usize; 2],
    new: [usize; 2],
    scale: [f64; 2],
    offset: [f64; 2],
}

impl Pipeline {
    /// Where an image of that size lies after the steps; none when a step moves pixels at random or by what it sees.
    pub fn placed(&self, height: usize, width: usize) -> Option<Placed> {
        let old = [height.max(1), width.max(1)];
        let mut placed = Placed { old, new: old, scale: [1.0; 2], offset: [0.0; 2] };
        self.steps.iter().try_for_each(|step| placed.follow(step))?;
        Some(placed)
    }
}

impl Placed {
    fn follow(&mut self, step: &TransformStep) -> Option<()> {
        let [height, width] = self.new;
        match step {
            TransformStep::Resize { size, .. } => self.resize([size.0, size.1]),
            TransformStep::ResizeShort { side, .. } => self.resize(fit_short_side(height, width, *side).into()),
            TransformStep::ResizeLong { side, .. } => self.resize(fit_long_side(height, width, *side).into()),
            TransformStep::ResizeWithPad { size, .. } => {
                let frame = [size.0.max(1), size.1.max(1)];
                let ratio = (height as f64 / frame[0] as f64).max(width as f64 / frame[1] as f64);
                let inner = [0, 1].map(|axis| ((self.new[axis] as f64 / ratio) as usize).clamp(1, frame[axis]));
                self.resize(inner);
                self.shift([0, 1].map(|axis| ((frame[axis] - inner[axis]) / 2) as f64), frame);
            }
            TransformStep::CenterCrop { size } => {
                let frame = [size.0, size.1];
                let offset = [0, 1].map(|axis| match frame[axis].checked_sub(self.new[axis]) {
                    Some(missing) => (missing / 2) as f64,
                    None => -((self.new[axis] - frame[axis]) as f64 / 2.0).round_ties_even(),
                });
                self.shift(offset, frame);
            }
            TransformStep::Shrink { factor } => self.resize(self.new.map(|side| side / (*factor).max(1))),
            // Other geometry is random or depends on the image; detectors bring their boxes back from a letterbox
            // themselves.
            other => match other.group() {
                StepGroup::Color | StepGroup::Degradation | StepGroup::Conversion => {}
                StepGroup::Geometry | StepGroup::Automatic => return None,
            },
        }
        Some(())
    }

    fn resize(&mut self, size: [usize; 2]) {
        for axis in 0..2 {
            let factor = size[axis].max(1) as f64 / self.new[axis] as f64;
            self.scale[axis] *= factor;
            self.offset[axis] *= factor;
            self.new[axis] = size[axis].max(1);
        }
    }

    fn shift(&mut self, by: [f64; 2], size: [usize; 2]) {
        for axis in 0..2 {
            self.offset[axis] += by[axis];
            self.new[axis] = size[axis].max(1);
        }
    }

    /// The likeliest class of every pixel of the image, from logits `[height, width, classes]` over what the network saw: see
    /// [`pixels`](Placed::pixels).
    pub fn classes(&self, logits: &[f32], dims: [usize; 3]) -> Image<u8> {
        let [rows, columns] = self.old;
        let mut found = vec![0; rows * columns];
        self.pixels(logits, dims, |pixel, logits| {
            let (mut best, mut class) = (f32::NEG_INFINITY, 0);
            for (number, &value) in logits.iter().enumerate() {
                if value > best {
                    (best, class) = (value, number);
                }
            }
            found[pixel] = class as u8;
        });
        Image::new(rows, columns, 1, found).expect("a class per pixel")
    }

    /// Every pixel of the image with its logits, row by row, from logits `[height, width, classes]` over what the network saw: they
    /// are interpolated between its pixels. Where the network saw nothing, its nearest pixel counts.
    pub fn pixels(
        &self,
        logits: &[f32],
        [height, width, classes]: [usize; 3],
        mut pixel_of: impl FnMut(usize, &[f32]),
    ) {
        let [rows, columns] = self.old;
        // The two pixels around a coordinate and the share of the second.
        let around = |pixel: usize, axis: usize, size: usize| {
            let share = size as f64 / self.new[axis].max(1) as f64;
            let at = ((pixel as f64 + 0.5) * self.scale[axis] + self.offset[axis]) * share - 0.5;
            let at = at.clamp(0.0, size.saturating_sub(1) as f64);
            (at as usize, (at as usize + 1).min(size.saturating_sub(1)), at.fract() as f32)
        };
        let across: Vec<_> = (0..columns).map(|column| around(column, 1, width)).collect();
        let (mut line, mut values) = (vec![0f32; width * classes], vec![0f32; classes]);
        for row in 0..rows {
            let (top, below, down) = around(row, 0, height);
            let of_row = |row: usize| &logits[row * width * classes..][..width * classes];
            for ((value, above), under) in line.iter_mut().zip(of_row(top)).zip(of_row(below)) {
                *value = above + (under - above) * down;
            }
            for (column, &(left, right, share)) in across.iter().enumerate() {
                let (left, right) = (&line[left * classes..][..classes], &line[right * classes..][..classes]);
                for ((value, left), right) in values.iter_mut().zip(left).zip(right) {
                    *value = left + (right - left) * share;
                }
                pixel_of(row * columns + column, &values);
            }
        }
    }

    /// A map over what the network saw, as a map over the image: straight lines between its pixels, `outside` where the
    /// network saw nothing.
    pub fn back(&self, map: &Image<u8>, outside: u8) -> Image<u8> {
        let [height, width] = self.old;
        // The center of a pixel of the image, in the coordinates of the map's pixels.
        let along = |pixel: usize, axis: usize| (pixel as f64 + 0.5) * self.scale[axis] + self.offset[axis] - 0.5;
        let limits = [map.height(), map.width()].map(|size| size as f64 - 0.5);
        Image::from_fn(height, width, 1, |row, column, _| {
            let (y, x) = (along(row, 0), along(column, 1));
            if y < -0.5 || x < -0.5 || y > limits[0] || x > limits[1] {
                return outside;
            }
            let neighbors = |at: f64, size: usize| {
                let first = at.clamp(0.0, size as f64 - 1.0);
                (first as usize, (first as usize + 1).min(size - 1), first.fract())
            };
            let ((top, below, down), (left, right, across)) = (neighbors(y, map.height()), neighbors(x, map.width()));
            let value = |row: usize, column: usize| map.pixel(row, column)[0] as f64;
            let upper = value(top, left) * (1.0 - across) + value(top, right) * across;
            let lower = value(below, left) * (1.0 - across) + value(below, right) * across;
            (upper * (1.0 - down) + lower * down).round() as u8
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnyImage, Sample, SampleRng, Target, Transform};

    /// What every list of steps makes of a marked square, brought back, is the square.
    #[test]
    fn masks_had_the_networks_size_instead_of_the_images() {
        let lists = [
            r#"[{"op":"resize","size":[64,64]}]"#,
            r#"[{"op":"resize-short","side":48},{"op":"center-crop","size":[48,48]}]"#,
            r#"[{"op":"resize-long","side":50},{"op":"center-crop","size":[64,64]}]"#,
            r#"[{"op":"resize-with-pad","size":[64,96]},{"op":"to-u8"}]"#,
            "[]",
        ];
        let inside = |row: usize, column: usize| (12..24).contains(&row) && (30..45).contains(&column);
        let mask = Image::from_fn(40, 70, 1, |row, column, _| if inside(row, column) { 255u8 } else { 0 });
        for list in lists {
            let pipeline: Pipeline = serde_json::from_str(list).unwrap();
            let sample = Sample { image: AnyImage::U8(mask.clone()), target: Target::Class(0) };
            let AnyImage::U8(seen) = pipeline.apply(sample, &mut SampleRng::new(0, 0, 0)).unwrap().image else {
                panic!("bytes stay bytes")
            };
            let placed = pipeline.placed(40, 70).unwrap();
            assert_eq!(placed.new, [seen.height(), seen.width()], "{list}");
            let back = placed.back(&seen, 0);
            assert_eq!(back.dims(), [40, 70, 1], "{list}");
            let wrong = (0..40 * 70).filter(|position| {
                let (row, column) = (position / 70, position % 70);
                (back.pixel(row, column)[0] >= 128) != inside(row, column)
            });
            assert!(wrong.count() <= 4, "{list}");
            let logits: Vec<f32> =
                seen.values().iter().flat_map(|&value| [0.5, f32::from(value) / 255.0, -1.0]).collect();
            let classes = placed.classes(&logits, [seen.height(), seen.width(), 3]);
            let wrong = (0..40 * 70).filter(|at| {
                (classes.pixel(at / 70, at % 70)[0] == 1) != inside(at / 70, at % 70) && list.find("crop").is_none()
            });
            assert!(classes.dims() == [40, 70, 1] && wrong.count() <= 4, "{list}");
        }
        let random: Pipeline = serde_json::from_str(r#"[{"op":"flip-horizontally"}]"#).unwrap();
        assert_eq!(random.placed(40, 70), None);
    }
}
