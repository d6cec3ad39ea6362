//! Moving pixels: crops, mirrors, erasing.

use octant_graph::{DType, Gather, Shape, Tensor};
use octant_imaging::geometry::Window;

/// The same part of every picture. Parts beyond the border are cut off; at least one pixel is returned.
pub fn crop(pictures: &Tensor, window: Window) -> Tensor {
    let [rows, columns] = [pictures.dim(1), pictures.dim(2)];
    let (top, left) = (window.top.min(rows - 1), window.left.min(columns - 1));
    let (height, width) = (window.height.clamp(1, rows - top), window.width.clamp(1, columns - left));
    pictures.slice_axis(1, top, top + height).slice_axis(2, left, left + width)
}

/// A part of `height` × `width` of every picture, each at its own place: `places` holds (top, left) as integers,
/// `[n, 2]`. Places are moved inwards until the part lies inside.
pub fn crop_each(pictures: &Tensor, places: &Tensor, height: usize, width: usize) -> Tensor {
    let [count, channels] = [pictures.dim(0), pictures.dim(3)];
    let number = pictures.trace().iota(Shape::new(DType::I32, [count, 1]), 0);
    let corners = Tensor::concatenate(&[number, places.convert(DType::I32)], 1);
    let gather = Gather {
        offset_axes: vec![1, 2, 3],
        collapsed_axes: vec![0],
        start_index_map: vec![0, 1, 2],
        index_vector_axis: 1,
        slice_sizes: vec![1, height, width, channels],
    };
    pictures.gather(&corners, gather)
}

/// Left and right exchanged in every picture.
pub fn flip_horizontally(pictures: &Tensor) -> Tensor {
    pictures.reverse(&[2])
}

/// Top and bottom exchanged in every picture.
pub fn flip_vertically(pictures: &Tensor) -> Tensor {
    pictures.reverse(&[1])
}

/// Left and right exchanged in the pictures where `which` (truth values, `[n]`) holds.
pub fn mirror_where(pictures: &Tensor, which: &Tensor) -> Tensor {
    let which = which.reshape(&[pictures.dim(0), 1, 1, 1]).broadcast_to(pictures.dims());
    which.select(&flip_horizontally(pictures), pictures)
}

/// Overwrites a window of every picture, `windows` holding (top, left, height, width) as integers, `[n, 4]`, with
/// `fill`, which broadcasts to the pictures: one value, one per channel, or noise.
pub fn erase(pictures: &Tensor, windows: &Tensor, fill: &Tensor) -> Tensor {
    inside(pictures, windows).select(&fill.convert(pictures.dtype()).broadcast_to(pictures.dims()), pictures)
}

/// Where every picture's own window is.
pub(crate) fn inside(pictures: &Tensor, windows: &Tensor) -> Tensor {
    let count = pictures.dim(0);
    let windows = windows.convert(DType::I32);
    let number = |place: usize| windows.slice_axis(1, place, place + 1).reshape(&[count, 1, 1, 1]);
    let along = |axis: usize, start: Tensor, length: Tensor| {
        let mut dims = vec![1; 4];
        dims[axis] = pictures.dim(axis as isize);
        let place = pictures.trace().iota(Shape::new(DType::I32, dims), axis);
        place.greater_equal(&start).and(&place.less(&(&start + length)))
    };
    let rows = along(1, number(0), number(2));
    let columns = along(2, number(1), number(3));
    rows.and(&columns).broadcast_to(pictures.dims())
}
