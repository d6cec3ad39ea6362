//! The pipelines of well-known recipes.

use super::{Eraser, Pipeline, TransformStep};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};

const BILINEAR: Method = Method::new(Filter::Bilinear, Semantics::Pil);
const BICUBIC: Method = Method::new(Filter::Bicubic, Semantics::Pil);

impl Pipeline {
    /// ImageNet training: random resized crop and mirror.
    pub fn imagenet_train(side: usize) -> Pipeline {
        Pipeline::new([
            TransformStep::RandomResizedCrop {
                size: (side, side),
                scale: (0.08, 1.0),
                ratio: (0.75, 4.0 / 3.0),
                method: BILINEAR,
            },
            TransformStep::FlipHorizontally { p: 0.5 },
        ])
    }

    /// Fine-tuning of large networks on few images: as ImageNet's, with two random operations and an erasing.
    pub fn finetune_train(side: usize) -> Pipeline {
        let mut pipeline = Pipeline::imagenet_train(side);
        let with = Eraser::default();
        pipeline.steps.extend([
            TransformStep::RandAugment { count: 2, magnitude: 9, levels: 31 },
            TransformStep::RandomErasing { p: 0.25, scale: (0.02, 0.33), ratio: (0.3, 3.3), with },
        ]);
        pipeline
    }

    /// ImageNet evaluation: the shorter side to `side` / `share`, then the middle.
    pub fn imagenet_eval(side: usize, share: f32, filter: Filter) -> Pipeline {
        let short = (side as f32 / share).floor() as usize;
        Pipeline::new([
            TransformStep::ResizeShort { side: short, method: Method::new(filter, Semantics::Pil) },
            TransformStep::CenterCrop { size: (side, side) },
        ])
    }

    /// Fine-tuning on CIFAR: mirror, padded crop, color jitter, enlargement, two erasings.
    pub fn cifar_finetune_train(side: usize) -> Pipeline {
        let erasing =
            TransformStep::RandomErasing { p: 0.5, scale: (0.02, 0.33), ratio: (0.3, 3.3), with: Eraser::default() };
        Pipeline::new([
            TransformStep::FlipHorizontally { p: 0.5 },
            TransformStep::RandomCrop { size: (32, 32), padding: 4, fill: 0, max_class_share: None },
            TransformStep::ColorJitter {
                brightness: 0.2,
                contrast: 0.2,
                saturation: 0.5,
                hue: 0.0,
                semantics: Semantics::Pil,
                p: 1.0,
            },
            TransformStep::ResizeShort { side: (side as f32 / 0.875).floor() as usize, method: BICUBIC },
            TransformStep::CenterCrop { size: (side, side) },
            erasing.clone(),
            erasing,
        ])
    }

    /// Evaluation of the same: enlargement and the middle.
    pub fn cifar_finetune_eval(side: usize) -> Pipeline {
        Pipeline::imagenet_eval(side, 0.875, Filter::Bicubic)
    }

    /// Training on infrared small targets: mirror, scale jitter with padding and crop, blur half of the time.
    pub fn irstd_train(base: usize, crop: usize) -> Pipeline {
        Pipeline::new([
            TransformStep::FlipHorizontally { p: 0.5 },
            TransformStep::ScaleJitterCrop { base, crop, scale: (0.5, 2.0), method: BILINEAR, max_class_share: None },
            TransformStep::GaussianBlur { sigma: (0.0, 1.0), size: 0, semantics: Semantics::Pil, p: 0.5 },
        ])
    }

    /// Evaluation on infrared small targets: everything to one square size.
    pub fn irstd_eval(base: usize) -> Pipeline {
        Pipeline::new([TransformStep::Resize { size: (base, base), method: BILINEAR }])
    }
}
