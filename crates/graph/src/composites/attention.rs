//! Scaled dot-product attention as a call: the body is the plain formula, the kernel a hint.
//!
//! The gradient computes the weights again from the saved log-sum-exp of the scores, so that a backend with the kernel
//! never stores a value of `queries × keys` elements. Its own body does the same with plain operations.

use crate::{DType, DotGeneral, Graph, KernelHint, Shape, Tensor};
use std::sync::Arc;

/// What an attention adds to the scores and which keys a query may see.
#[derive(Debug, Clone, Copy, Default)]
pub struct AttentionOptions<'a> {
    /// The factor of the scores; one over the root of the features of a head if not given.
    pub scale: Option<f64>,
    /// A query sees the keys up to its own position only.
    pub causal: bool,
    /// Added to the scores: `[groups, heads or 1, queries or 1, keys]`, where the batch is a multiple of `groups` and
    /// element `b` of the batch takes group `b mod groups`. Padding masks have one group per element, relative position
    /// biases of windows one group, shifted windows one group per window.
    pub bias: Option<&'a Tensor>,
    /// Whether `bias` gets a gradient; a mask needs none.
    pub trainable_bias: bool,
}

/// The descriptor of the kernels `attention` and `attention_gradient`.
///
/// The forward kernel takes `[joint, bias?]` or `[queries, keys, values, bias?]` and returns the result
/// `[batch, queries, heads, features]` and the log-sum-exp of the scores `[batch, heads, queries]` in the type of sums. The
/// backward kernel takes the same inputs, both results, and the cotangents of both; it returns the cotangents of the inputs,
/// that of the bias only if it is trainable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionKernel {
    /// Elements of the batch.
    pub batch: usize,
    /// Queries of each.
    pub queries: usize,
    /// Keys of each.
    pub keys: usize,
    /// Heads.
    pub heads: usize,
    /// Features of a head.
    pub features: usize,
    /// The element type of queries, keys and values.
    pub dtype: DType,
    /// The factor of the scores.
    pub scale: f64,
    /// A query sees the keys up to its own position only.
    pub causal: bool,
    /// Queries, keys and values are parts of one operand `[batch, tokens, 3, heads, features]`.
    pub joint: bool,
    /// The dimensions of the bias but for the keys: groups, heads or 1, queries or 1.
    pub bias: Option<[usize; 3]>,
    /// Whether the bias gets a gradient.
    pub trainable_bias: bool,
}

/// A score that no other reaches, finite so that a row of nothing else has no NaN.
const HIDDEN: f64 = -1e30;

/// One over the root of a head's features.
fn usual_scale(features: usize) -> f64 {
    1.0 / (features.max(1) as f64).sqrt()
}

impl AttentionKernel {
    /// The name of the forward kernel.
    pub const FORWARD: &'static str = "attention";
    /// The name of the backward kernel.
    pub const BACKWARD: &'static str = "attention_gradient";

    /// The type that scores and sums are computed in.
    pub fn sums(&self) -> DType {
        if self.dtype == DType::F64 { DType::F64 } else { DType::F32 }
    }

    /// How many operands stand before the bias.
    pub fn operands(&self) -> usize {
        if self.joint { 1 } else { 3 }
    }

    fn encode(&self) -> Vec<i64> {
        let dtype = DType::ALL.iter().position(|&dtype| dtype == self.dtype).unwrap_or(0);
        let bias = self.bias.unwrap_or([0; 3]);
        let sizes = [self.batch, self.queries, self.keys, self.heads, self.features, dtype, bias[0], bias[1], bias[2]];
        let flags = [self.causal, self.joint, self.trainable_bias].map(i64::from);
        let sizes = sizes.map(|size| size as i64);
        [&sizes[..], &flags, &[self.scale.to_bits() as i64]].concat()
    }

    /// The descriptor of a hint of either name; none for another kernel.
    pub fn decode(hint: &KernelHint) -> Option<AttentionKernel> {
        if hint.name != AttentionKernel::FORWARD && hint.name != AttentionKernel::BACKWARD {
            return None;
        }
        let integers = <[i64; 13]>::try_from(&hint.integers[..]).ok()?;
        let [batch, queries, keys, heads, features, dtype, groups, bias_heads, bias_queries, ..] = integers;
        let [.., causal, joint, trainable_bias, scale] = integers;
        let [batch, queries, keys, heads, features] = [batch, queries, keys, heads, features].map(|size| size as usize);
        let bias = [groups, bias_heads, bias_queries].map(|size| size as usize);
        Some(AttentionKernel {
            batch,
            queries,
            keys,
            heads,
            features,
            dtype: *DType::ALL.get(dtype as usize)?,
            scale: f64::from_bits(scale as u64),
            causal: causal != 0,
            joint: joint != 0,
            bias: (groups > 0).then_some(bias),
            trainable_bias: trainable_bias != 0,
        })
    }

    fn hint(&self, name: &str, gradient: Option<Arc<Graph>>) -> Option<Arc<KernelHint>> {
        Some(Arc::new(KernelHint { gradient, ..KernelHint::new(name, self.encode()) }))
    }

    /// The call over its operands and the bias.
    fn call(&self, inputs: &[Tensor]) -> [Tensor; 2] {
        let Some(first) = inputs.first() else { unreachable!("an attention has operands") };
        let trace = first.trace();
        let gradient = self.gradient(inputs);
        let results =
            trace.call_kernel(inputs, false, self.hint(AttentionKernel::FORWARD, gradient), |x| self.forward(x).into());
        let [result, sums] = <[Tensor; 2]>::try_from(results).unwrap_or_else(|_| unreachable!("it has two results"));
        [result, sums]
    }

    /// From inputs, results and cotangents of the results to the cotangents of the inputs.
    fn gradient(&self, inputs: &[Tensor]) -> Option<Arc<Graph>> {
        let trace = inputs.first()?.trace();
        let result = Shape::new(self.dtype, [self.batch, self.queries, self.heads, self.features]);
        let sums = Shape::new(self.sums(), [self.batch, self.heads, self.queries]);
        let taken: Vec<Shape> = inputs.iter().map(|input| input.shape().clone()).collect();
        let taken = [&taken[..], &[result.clone(), sums.clone(), result, sums]].concat();
        let (graph, _) = trace.body(&taken, |child, taken| {
            let hint = self.hint(AttentionKernel::BACKWARD, None);
            let mut cotangents = child.call_kernel(taken, false, hint, |taken| self.backward(taken));
            if self.bias.is_some() && !self.trainable_bias {
                cotangents.push(taken[self.operands()].zeros_like());
            }
            cotangents
        });
        trace.error().is_none().then_some(graph)
    }

    /// Queries, keys and values of the forward kernel's inputs, as `[batch, tokens, heads, features]` each.
    pub fn split(&self, inputs: &[Tensor]) -> [Tensor; 3] {
        if !self.joint {
            return [0, 1, 2].map(|part| inputs[part].clone());
        }
        let dims = [self.batch, self.queries, self.heads, self.features];
        [0, 1, 2].map(|part| inputs[0].slice_axis(2, part, part + 1).reshape(&dims))
    }

    /// Queries, keys and values, or their cotangents, as the inputs are given: the opposite of [`split`](Self::split).
    pub fn joined(&self, parts: [Tensor; 3]) -> Vec<Tensor> {
        if !self.joint {
            return parts.to_vec();
        }
        let with_axis = |part: &Tensor| part.reshape(&[self.batch, self.queries, 1, self.heads, self.features]);
        vec![Tensor::concatenate(&parts.each_ref().map(with_axis), 2)]
    }

    /// `[batch, heads, queries, keys]`
    fn scores(&self, queries: &Tensor, keys: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let scores = per_head(queries, [0, 2, 3], keys, [0, 2, 3], self.sums()) * self.scale;
        let scores = match bias {
            Some(bias) => self.plus_bias(&scores, &bias.convert(self.sums())),
            None => scores,
        };
        if !self.causal {
            return scores;
        }
        let index = |axis| scores.trace().iota(Shape::new(DType::I32, [self.queries, self.keys]), axis);
        index(1).less_equal(&index(0)).select(&scores, &scores.scalar_like(HIDDEN))
    }

    fn plus_bias(&self, scores: &Tensor, bias: &Tensor) -> Tensor {
        let groups = bias.dim(0);
        if groups == 1 || groups == self.batch {
            return scores + bias;
        }
        let grouped = [self.batch / groups, groups, self.heads, self.queries, self.keys];
        (scores.reshape(&grouped) + bias).reshape(scores.dims())
    }

    /// The plain formula, from the forward kernel's inputs to its results.
    pub fn forward(&self, inputs: &[Tensor]) -> [Tensor; 2] {
        let [queries, keys, values] = self.split(inputs);
        let scores = self.scores(&queries, &keys, inputs.get(self.operands()));
        let max = scores.max_keep(&[3]).stop_gradient();
        let exponentials = (scores - &max).exp();
        let sums = exponentials.sum_keep(&[3]);
        let weights = (exponentials / &sums).convert(self.dtype);
        let mixed = per_head(&weights, [0, 1, 3], &values, [0, 2, 1], self.dtype);
        let log_sums = (sums.log() + max).reshape(&[self.batch, self.heads, self.queries]);
        [mixed.transpose(&[0, 2, 1, 3]), log_sums]
    }

    /// The plain formula of the gradient from the saved log-sum-exp, from the backward kernel's inputs to its results.
    pub fn backward(&self, taken: &[Tensor]) -> Vec<Tensor> {
        let [queries, keys, values] = self.split(taken);
        let given = self.operands() + self.bias.is_some() as usize;
        let [result, log_sums, cotangent, sums_cotangent] = [0, 1, 2, 3].map(|index| &taken[given + index]);
        let rows = [self.batch, self.heads, self.queries, 1];
        let bias = self.bias.is_some().then(|| &taken[self.operands()]);
        let weights = (self.scores(&queries, &keys, bias) - log_sums.reshape(&rows)).exp();
        let of_weights = per_head(cotangent, [0, 2, 3], &values, [0, 2, 3], self.sums());
        let product = cotangent.convert(self.sums()) * result.convert(self.sums());
        let center = product.sum(&[3]).transpose(&[0, 2, 1]).reshape(&rows) - sums_cotangent.reshape(&rows);
        let of_scores = &weights * (of_weights - center);
        let narrow = (&of_scores * self.scale).convert(self.dtype);
        let weights = weights.convert(self.dtype);
        // [batch, heads, tokens, features] each
        let of_queries = per_head(&narrow, [0, 1, 3], &keys, [0, 2, 1], self.dtype);
        let of_keys = per_head(&narrow, [0, 1, 2], &queries, [0, 2, 1], self.dtype);
        let of_values = per_head(&weights, [0, 1, 2], cotangent, [0, 2, 1], self.dtype);
        let parts = [of_queries, of_keys, of_values].map(|part| part.transpose(&[0, 2, 1, 3]));
        let mut cotangents = self.joined(parts);
        if let Some([groups, ..]) = self.bias.filter(|_| self.trainable_bias) {
            let grouped = [self.batch / groups, groups, self.heads, self.queries, self.keys];
            cotangents.push(of_scores.reshape(&grouped).sum(&[0]).convert(taken[self.operands()].dtype()));
        }
        cotangents
    }
}

/// A product per element of the batch and head: `axes` are those of the batch, of the heads and of the summed ones.
fn per_head(left: &Tensor, left_axes: [usize; 3], right: &Tensor, right_axes: [usize; 3], dtype: DType) -> Tensor {
    let dot = DotGeneral {
        left_batch: left_axes[..2].to_vec(),
        right_batch: right_axes[..2].to_vec(),
        left_contract: vec![left_axes[2]],
        right_contract: vec![right_axes[2]],
        dtype,
    };
    left.dot_general(right, dot)
}

impl Tensor {
    /// `softmax(queries · keysᵀ · scale + bias) · values` per head, and the log-sum-exp of the scores in f32 (f64 for f64)
    /// as `[batch, heads, queries]`. Queries are `[batch, tokens, heads, features]`, keys and values likewise with their own
    /// number of tokens. Values may have more or fewer features than queries and keys.
    pub fn attention(&self, keys: &Tensor, values: &Tensor, options: &AttentionOptions) -> [Tensor; 2] {
        let fits = self.rank() == 4
            && keys.rank() == 4
            && values.rank() == 4
            && values.dims()[..3] == keys.dims()[..3]
            && [self.dim(0), self.dim(2), self.dim(3)] == [keys.dim(0), keys.dim(2), keys.dim(3)]
            && keys.dtype() == self.dtype()
            && values.dtype() == self.dtype();
        if !fits {
            let [queries, keys, values] = [self, keys, values].map(|tensor| tensor.shape());
            return self.failed(format!("attention: queries {queries}, keys {keys} and values {values} do not fit"));
        }
        let (features, of_values) = (self.dim(3), values.dim(3));
        if features != of_values {
            // Kernels know one number of features; zeros change neither scores nor results.
            let [queries, keys, values] = [self, keys, values].map(|x| x.with_features(features.max(of_values)));
            let scale = options.scale.unwrap_or_else(|| usual_scale(features));
            let [mixed, sums] = queries.attention(&keys, &values, &AttentionOptions { scale: Some(scale), ..*options });
            return [mixed.slice_axis(3, 0, of_values), sums];
        }
        let sizes = [self.dim(0), self.dim(1), keys.dim(1), self.dim(2), features];
        self.attend(&[self.clone(), keys.clone(), values.clone()], sizes, options)
    }

    /// Zeros behind the last axis, up to `features`.
    fn with_features(&self, features: usize) -> Tensor {
        let missing = (features - self.dim(3)) as i64;
        if missing == 0 {
            self.clone()
        } else {
            self.pad(&self.scalar_like(0.0), &[0; 4], &[0, 0, 0, missing], &[0; 4])
        }
    }

    /// The same where this value holds queries, keys and values: `[batch, tokens, 3, heads, features]`.
    pub fn self_attention(&self, options: &AttentionOptions) -> [Tensor; 2] {
        if self.rank() != 5 || self.dim(2) != 3 {
            let message = format!("self_attention: {} is not [batch, tokens, 3, heads, features]", self.shape());
            return self.failed(message);
        }
        let sizes = [self.dim(0), self.dim(1), self.dim(1), self.dim(3), self.dim(4)];
        self.attend(std::slice::from_ref(self), sizes, options)
    }

    fn failed(&self, message: String) -> [Tensor; 2] {
        let result = self.trace().fail(message, self.shape().clone());
        [result.clone(), result]
    }

    fn attend(
        &self,
        operands: &[Tensor],
        [batch, queries, keys, heads, features]: [usize; 5],
        options: &AttentionOptions,
    ) -> [Tensor; 2] {
        let fits = |bias: &Tensor| {
            let dims = bias.dims();
            dims.len() == 4
                && dims[0] > 0
                && batch.is_multiple_of(dims[0])
                && [1, heads].contains(&dims[1])
                && [1, queries].contains(&dims[2])
                && dims[3] == keys
        };
        if let Some(bias) = options.bias.filter(|bias| !fits(bias)) {
            let message = format!("attention: the bias {} does not fit {batch}×{heads}×{queries}×{keys}", bias.shape());
            return self.failed(message);
        }
        // The gradient of what is repeated is summed by the broadcast.
        let bias = options.bias.map(|bias| match options.trainable_bias {
            true => bias.broadcast_to(&[bias.dim(0), heads, queries, keys]),
            false => bias.clone(),
        });
        let kernel = AttentionKernel {
            batch,
            queries,
            keys,
            heads,
            features,
            dtype: self.dtype(),
            scale: options.scale.unwrap_or_else(|| usual_scale(features)),
            causal: options.causal,
            joint: operands.len() == 1,
            bias: bias.as_ref().map(|bias| [bias.dim(0), bias.dim(1), bias.dim(2)]),
            trainable_bias: options.trainable_bias && bias.is_some(),
        };
        let inputs: Vec<Tensor> = operands.iter().cloned().chain(bias).collect();
        kernel.call(&inputs)
    }
}
