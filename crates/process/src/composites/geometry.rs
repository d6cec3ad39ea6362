//! Moving pixels: crops, mirrors, erasing.

use octant_graph::{DType, Gather, Shape, Tensor};
use octant_imaging::geometry::PixelWindow;

/// The same part of every image. Crops are clipped to the image; at least one pixel is returned.
pub fn crop(images: &Tensor, window: PixelWindow) -> Tensor {
    let [rows, columns] = [images.dim(1), images.dim(2)];
    let (top, left) = (window.top.min(rows - 1), window.left.min(columns - 1));
    let (height, width) = (window.height.clamp(1, rows - top), window.width.clamp(1, columns - left));
    images.slice_axis(1, top, top + height).slice_axis(2, left, left + width)
}

/// A crop of `height` × `width` of every image, each at its own position: `positions` holds (top, left) as integers,
/// `[n, 2]`. Positions are clamped so that the crop lies inside.
pub fn crop_each(images: &Tensor, positions: &Tensor, height: usize, width: usize) -> Tensor {
    let [count, channels] = [images.dim(0), images.dim(3)];
    let number = images.trace().iota(Shape::new(DType::I32, [count, 1]), 0);
    let corners = Tensor::concatenate(&[number, positions.convert(DType::I32)], 1);
    let gather = Gather {
        offset_axes: vec![1, 2, 3],
        collapsed_axes: vec![0],
        start_index_map: vec![0, 1, 2],
        index_vector_axis: 1,
        slice_sizes: vec![1, height, width, channels],
    };
    images.gather(&corners, gather)
}

/// Left and right exchanged in every image.
pub fn flip_horizontally(images: &Tensor) -> Tensor {
    images.reverse(&[2])
}

/// Top and bottom exchanged in every image.
pub fn flip_vertically(images: &Tensor) -> Tensor {
    images.reverse(&[1])
}

/// Left and right exchanged in the images where `which` (bools, `[n]`) holds.
pub fn mirror_where(images: &Tensor, which: &Tensor) -> Tensor {
    let which = which.reshape(&[images.dim(0), 1, 1, 1]).broadcast_to(images.dims());
    which.select(&flip_horizontally(images), images)
}

/// Overwrites a window of every image, `windows` holding (top, left, height, width) as integers, `[n, 4]`, with
/// `fill`, which broadcasts to the images: one value, one per channel, or noise.
pub fn erase(images: &Tensor, windows: &Tensor, fill: &Tensor) -> Tensor {
    inside(images, windows).select(&fill.convert(images.dtype()).broadcast_to(images.dims()), images)
}

/// Where every image's own window is.
pub(crate) fn inside(images: &Tensor, windows: &Tensor) -> Tensor {
    let count = images.dim(0);
    let windows = windows.convert(DType::I32);
    let number = |position: usize| windows.slice_axis(1, position, position + 1).reshape(&[count, 1, 1, 1]);
    let along = |axis: usize, start: Tensor, length: Tensor| {
        let mut dims = vec![1; 4];
        dims[axis] = images.dim(axis as isize);
        let position = images.trace().iota(Shape::new(DType::I32, dims), axis);
        position.greater_equal(&start).and(&position.less(&(&start + length)))
    };
    let rows = along(1, number(0), number(2));
    let columns = along(2, number(1), number(3));
    rows.and(&columns).broadcast_to(images.dims())
}
