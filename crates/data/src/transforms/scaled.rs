//! The same steps at another scale: what they make is larger or smaller by a factor.

use super::{Pipeline, TransformStep};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};

impl Pipeline {
    /// Steps that make an image of this size `factor` times as large as these do. Sizes that steps name are rounded to multiples
    /// of `multiple`; where no step names one, the image is resized first. A factor of 1 changes nothing.
    pub fn scaled(&self, factor: f64, multiple: usize, [height, width]: [usize; 2]) -> Pipeline {
        if factor == 1.0 {
            return self.clone();
        }
        let side = |side: usize| {
            let units = side as f64 * factor / multiple.max(1) as f64;
            units.round().max(1.0) as usize * multiple.max(1)
        };
        let mut named = false;
        let mut scaled = self.clone();
        for step in &mut scaled.steps {
            match step {
                TransformStep::Resize { size, .. }
                | TransformStep::ResizeWithPad { size, .. }
                | TransformStep::CenterCrop { size } => *size = (side(size.0), side(size.1)),
                TransformStep::ResizeShort { side: length, .. }
                | TransformStep::ResizeLong { side: length, .. }
                | TransformStep::Letterbox { side: length } => *length = side(*length),
                _ => continue,
            }
            named = true;
        }
        if !named {
            let method = Method::new(Filter::Bilinear, Semantics::Pil);
            scaled.steps.insert(0, TransformStep::Resize { size: (side(height), side(width)), method });
        }
        scaled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_larger_and_smaller_by_the_factor() {
        let made = |steps: &str, factor, multiple| {
            let pipeline: Pipeline = serde_json::from_str(steps).unwrap();
            serde_json::to_string(&pipeline.scaled(factor, multiple, [40, 70])).unwrap()
        };
        let fixed = r#"[{"op":"resize-short","side":256},{"op":"center-crop","size":[224,192]},{"op":"to-u8"}]"#;
        assert!(made(fixed, 0.75, 32).contains(r#""side":192"#), "{}", made(fixed, 0.75, 32));
        assert!(made(fixed, 0.75, 32).contains(r#""size":[160,160]"#), "{}", made(fixed, 0.75, 32));
        assert!(made(fixed, 1.25, 1).contains(r#""size":[280,240]"#), "{}", made(fixed, 1.25, 1));
        assert!(made(r#"[{"op":"to-u8"}]"#, 0.5, 16).starts_with(r#"[{"op":"resize","size":[16,32]"#));
        assert!(made(fixed, 0.01, 32).contains(r#""size":[32,32]"#), "no side vanishes");
        let same: Pipeline = serde_json::from_str(fixed).unwrap();
        assert_eq!(same.scaled(1.0, 32, [40, 70]), same);
    }
}
