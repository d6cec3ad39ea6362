//! Attention that looks at a few points of feature maps (Zhu et al., "Deformable DETR", 2021).

use crate::{DType, Gather, HostTensor, Shape, Tensor};

/// One of the feature maps that points lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampledMap {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// How many points every head of a query has on it.
    pub points: usize,
}

impl Tensor {
    /// What every query sees of feature maps: the sum over its points of `weights` times the bilinear value of the map there.
    ///
    /// This value has the maps' pixels one after another, map by map and row by row: `[n, pixels, heads, features]`. `places`
    /// are `[n, queries, heads, points, 2]`, columns and rows as shares of the map's sides, and `weights` are `[n, queries,
    /// heads, points]`; the points of the first map come first. Beyond a map there is nothing, as in PyTorch's `grid_sample`
    /// with zeros around and `align_corners=False`. The result is `[n, queries, heads, features]`.
    pub fn deformable_attention(&self, places: &Tensor, weights: &Tensor, maps: &[SampledMap]) -> Tensor {
        let points: usize = maps.iter().map(|map| map.points).sum();
        let pixels: usize = maps.iter().map(|map| map.height * map.width).sum();
        let fits = self.rank() == 4
            && self.dim(1) == pixels
            && weights.rank() == 4
            && weights.dim(3) == points
            && [weights.dim(0), weights.dim(2)] == [self.dim(0), self.dim(2)]
            && places.dims() == [weights.dims(), &[2]].concat();
        if !fits {
            let [values, places, weights] = [self, places, weights].map(|tensor| tensor.shape());
            let message = format!("deformable_attention: {values}, places {places} and weights {weights} do not fit");
            return self.trace().fail(message, self.shape().clone());
        }
        let (heads, features) = (self.dim(2), self.dim(3));
        let dims = weights.dims().to_vec();
        // What is known of the map that every point lies on.
        let of_point = |value: &dyn Fn(&SampledMap, usize) -> usize| {
            let mut start = 0;
            let values: Vec<f32> = maps
                .iter()
                .flat_map(|map| {
                    let own = value(map, start) as f32;
                    start += map.height * map.width;
                    std::iter::repeat_n(own, map.points)
                })
                .collect();
            let row = HostTensor::new([1, 1, 1, points], &values).expect("one value per point");
            self.trace().constant(row).broadcast_to(&dims)
        };
        let (height, width) = (of_point(&|map, _| map.height), of_point(&|map, _| map.width));
        let start = of_point(&|_, start| start);
        let places = places.convert(DType::F32);
        let along = |axis: usize, side: &Tensor| {
            let pixel = places.slice_axis(4, axis, axis + 1).reshape(&dims) * side - 0.5;
            let low = pixel.floor().stop_gradient();
            let share = pixel - &low;
            (low, share)
        };
        let ((column, right), (row, below)) = (along(0, &width), along(1, &height));
        // The four pixels around a point, with how much each counts, and whether it is there.
        let corner = |down: f64, along: f64| {
            let (row, column) = (&row + down, &column + along);
            let vertical = if down > 0.0 { below.clone() } else { 1.0 - &below };
            let horizontal = if along > 0.0 { right.clone() } else { 1.0 - &right };
            let zero = row.scalar_like(0.0);
            let is_there = row
                .greater_equal(&zero)
                .and(&column.greater_equal(&zero))
                .and(&row.less(&height))
                .and(&column.less(&width));
            let share = vertical * horizontal * weights.convert(DType::F32);
            let share = is_there.select(&share, &share.zeros_like());
            let inside = |at: Tensor, side: &Tensor| at.max(&zero).min(&(side - 1.0));
            let pixel = &start + inside(row, &height) * &width + inside(column, &width);
            (pixel.convert(DType::I32), share)
        };
        let corners = [corner(0.0, 0.0), corner(0.0, 1.0), corner(1.0, 0.0), corner(1.0, 1.0)];
        let pixels = Tensor::concatenate(&corners.each_ref().map(|(pixel, _)| pixel.clone()), 3);
        let shares = Tensor::concatenate(&corners.map(|(_, share)| share), 3);
        // Images are named in the index vectors, so that partitioners see that every device finds its own at home.
        let index = |axis: usize| self.trace().iota(pixels.shape().with_dtype(DType::I32), axis).unsqueeze(4);
        let indices = Tensor::concatenate(&[index(0), pixels.unsqueeze(4), index(2)], 4);
        let gather = Gather {
            offset_axes: vec![4],
            collapsed_axes: vec![0, 1, 2],
            start_index_map: vec![0, 1, 2],
            index_vector_axis: 4,
            slice_sizes: vec![1, 1, 1, features],
        };
        let seen = self.gather(&indices, gather).convert(DType::F32);
        let shares = shares.unsqueeze(4).broadcast_to(&[dims[0], dims[1], heads, 4 * points, features]);
        (seen * shares).sum(&[3]).convert(self.dtype())
    }

    /// Rows of every element of a batch: from `[n, rows, …]` those at `[n, count]` indices, `[n, count, …]`.
    pub fn take_rows(&self, indices: &Tensor) -> Tensor {
        if self.rank() < 2 || indices.rank() != 2 || indices.dim(0) != self.dim(0) {
            let message = format!("take_rows: {} and indices {} do not fit", self.shape(), indices.shape());
            return self.trace().fail(message, self.shape().clone());
        }
        let image = indices.trace().iota(Shape::new(DType::I32, [indices.dim(0), indices.dim(1), 1]), 0);
        let rows = indices.convert(DType::I32).unsqueeze(2);
        let gather = Gather {
            offset_axes: (2..self.rank()).collect(),
            collapsed_axes: vec![0, 1],
            start_index_map: vec![0, 1],
            index_vector_axis: 2,
            slice_sizes: [&[1, 1], &self.dims()[2..]].concat(),
        };
        self.gather(&Tensor::concatenate(&[image, rows], 2), gather)
    }
}
