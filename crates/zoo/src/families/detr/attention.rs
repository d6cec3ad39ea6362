//! Attention among queries, and of queries over the maps.

use super::Detr;
use octant_graph::composites::SampledMap;
use octant_graph::{AttentionOptions, DType, Tensor};
use octant_nn::layers::Dense;
use octant_nn::{Init, Scope, init};

/// Self-attention whose queries and keys know their positions; values do not.
/// `bias` is added to the scores.
pub(super) fn self_attention(
    cx: &Scope,
    x: &Tensor,
    positions: &Tensor,
    bias: Option<&Tensor>,
    heads: usize,
) -> Tensor {
    let (width, placed) = (x.dim(2), x + positions.convert(x.dtype()));
    let project = |name: &str, y: &Tensor| {
        let y = Dense::new(width).apply(&cx.at(name), y);
        y.reshape(&[y.dim(0), y.dim(1), heads, width / heads])
    };
    let (queries, keys, values) = (project("q_proj", &placed), project("k_proj", &placed), project("v_proj", x));
    let bias = bias.map(|bias| bias.convert(queries.dtype()));
    let options = AttentionOptions { bias: bias.as_ref(), ..AttentionOptions::default() };
    let [mixed, _] = queries.attention(&keys, &values, &options);
    Dense::new(width).apply(&cx.at("o_proj"), &mixed.reshape(x.dims()))
}

impl Detr {
    /// What queries see of the maps' pixels `memory`, at points around their boxes (center and size as shares). RT-DETRv2 projects
    /// the pixels and what was seen of them, D-FINE does not.
    pub(super) fn cross_attention(
        &self,
        cx: &Scope,
        queries: &Tensor,
        boxes: &Tensor,
        memory: &Tensor,
        maps: &[SampledMap],
    ) -> Tensor {
        let [n, count, heads] = [queries.dim(0), queries.dim(1), self.heads];
        let points: usize = self.points.iter().sum();
        let values = match self.is_fine() {
            true => memory.clone(),
            false => projection(self.width).apply(&cx.at("value_proj"), memory),
        };
        let values = values.reshape(&[n, memory.dim(1), heads, self.width / heads]);
        let name = if self.is_fine() { "num_points_scale" } else { "n_points_scale" };
        let shares = cx.statistic(name, &[points], Init::PerPoint { points: listed(self.points) });
        let rays = Rays { heads, points: self.points };
        let offsets = rays.layer().apply(&cx.at("sampling_offsets"), queries).convert(DType::F32);
        let offsets = offsets.reshape(&[n, count, heads, points, 2]);
        let weights = Dense::new(heads * points).init(init::zeros, init::zeros);
        let weights = weights.apply(&cx.at("attention_weights"), queries).convert(DType::F32);
        let weights = weights.reshape(&[n, count, heads, points]).softmax(3);
        let dims = [n, count, heads, points, 2];
        let part = |from: usize| boxes.slice_axis(2, from, from + 2).reshape(&[n, count, 1, 1, 2]).broadcast_to(&dims);
        let shares = shares.reshape(&[1, 1, 1, points, 1]).broadcast_to(&dims);
        // Half a box is as far as a point may lie at first.
        let places = part(0) + offsets * shares * part(2) * 0.5;
        let seen = values.deformable_attention(&places, &weights, maps).reshape(&[n, count, self.width]);
        match self.is_fine() {
            true => seen,
            false => projection(self.width).apply(&cx.at("output_proj"), &seen),
        }
    }
}

fn projection(width: usize) -> Dense {
    Dense::new(width).init(init::glorot_uniform, init::zeros)
}

/// The points per map, as initializers keep them.
fn listed(points: &[usize]) -> [u8; 4] {
    let mut listed = [0; 4];
    listed.iter_mut().zip(points).for_each(|(slot, &points)| *slot = points as u8);
    listed
}

/// Offsets begin as rays, one direction per head, and one step farther per point of a map.
struct Rays {
    heads: usize,
    points: &'static [usize],
}

impl Rays {
    fn layer(&self) -> Dense {
        let count = 2 * self.heads * self.points.iter().sum::<usize>();
        Dense::new(count).init(init::zeros, init::zeros).bias_of(Init::Rays { points: listed(self.points) })
    }
}
