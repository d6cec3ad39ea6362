//! A batch of noise, as every model can learn from.

use super::subject::Subject;
use octant_data::{Batch, Position, Targets};
use octant_recipe::DEFAULT_SLOTS as SLOTS;
use octant_tensor::{Element, HostTensor};
use octant_zoo::ModelTask;

/// Images of noise with targets of the model's kind.
pub(super) fn synthetic(subject: &Subject) -> Batch {
    let (entry, count, [height, width]) = (subject.entry, subject.batch_size, [subject.size; 2]);
    let channels = entry.preprocessing.input[2];
    let targets = match entry.task {
        ModelTask::Classify => {
            let labels: Vec<i32> = (0..count).map(|i| (i % subject.classes()) as i32).collect();
            Targets::Classes(tensor(&[count], &labels))
        }
        ModelTask::Segment => {
            let mask: Vec<u8> = (0..count * height * width).map(|i| (i % 97 == 0) as u8).collect();
            Targets::Masks(tensor(&[count, height, width, 1], &mask))
        }
        ModelTask::Translate => {
            let factor = (entry.build)(entry.classes).enlarges();
            Targets::Images(noise(&[count, height * factor, width * factor, subject.classes()]))
        }
        ModelTask::Detect => {
            // A few boxes per image, which cover the left half.
            let corners = |slot: usize| [0.0, 0.0, (width / 2) as f32 / (slot + 1) as f32, height as f32];
            let boxes: Vec<f32> = (0..count * SLOTS).flat_map(|i| corners(i % SLOTS)).collect();
            let classes: Vec<i32> = (0..count * SLOTS).map(|i| if i % SLOTS < 8 { 0 } else { -1 }).collect();
            let (corners, classes) = (tensor(&[count, SLOTS, 4], &boxes), tensor(&[count, SLOTS], &classes));
            Targets::Boxes { corners, classes, judged: Vec::new() }
        }
    };
    Batch {
        position: Position::default(),
        images: noise(&[count, height, width, channels]),
        targets,
        mask: tensor(&[count], &vec![1.0f32; count]),
        valid: count,
        indices: (0..count as u64).collect(),
    }
}

fn noise(dims: &[usize]) -> HostTensor {
    let elements = dims.iter().product::<usize>() as u32;
    let bytes: Vec<u8> = (0..elements).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    tensor(dims, &bytes)
}

fn tensor<T: Element>(dims: &[usize], elements: &[T]) -> HostTensor {
    HostTensor::new(dims, elements).expect("as many elements as the shape has")
}
