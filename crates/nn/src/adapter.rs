//! Low-rank adapters (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021): beside a linear layer's matrix
//! lies a product of two thin ones, `x · W + x · A · B · alpha / rank`. Only the thin ones learn, and `B` starts at 0, so
//! that training begins with the network as it was.
//!
//! A linear layer looks up in the context whether it has an adapter; models and steps need not know.

use crate::{Fans, Scope, VariableSpec, WeightLayout, init, is_under};
use octant_graph::Tensor;

/// Which linear layers have adapters, and how large they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapters {
    /// Columns of `A`, rows of `B`.
    pub rank: usize,
    /// What the product is multiplied by, times the rank.
    pub alpha: f64,
    /// The last steps of the paths of layers, such as `qkv` or `attn.proj`; [`Adapters::ALL`] stands for every one.
    pub targets: Vec<String>,
    /// Paths below which nothing is adapted: the head, which is trained itself.
    pub except: Vec<String>,
}

impl Adapters {
    /// The target that stands for all linear layers, as in peft.
    pub const ALL: &'static str = "all-linear";
    /// The endings of the factors' paths below that of their layer, as peft has them.
    pub const FACTORS: [&'static str; 2] = [".lora_A.weight", ".lora_B.weight"];

    /// What the product of the factors is multiplied by.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank.max(1) as f64
    }

    /// Whether the layer at that path has an adapter.
    pub fn includes(&self, layer: &str) -> bool {
        let ends = |target: &String| {
            target == Adapters::ALL
                || layer.strip_suffix(target.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.targets.iter().any(ends) && !self.except.iter().any(|path| is_under(layer, path))
    }

    /// What the adapter of the layer at `cx` adds to its result.
    pub(crate) fn apply(&self, cx: &Scope, x: &Tensor, features: usize) -> Tensor {
        let inputs = x.channels();
        let fans = Fans { inputs, outputs: self.rank };
        let [down, up] = Adapters::FACTORS.map(|name| name.trim_start_matches('.'));
        let down = cx.param(down, &[inputs, self.rank], init::pytorch_default(fans), WeightLayout::Dense);
        let up = cx.param(up, &[self.rank, features], init::ZEROS, WeightLayout::Dense);
        x.matmul(&down.convert(x.dtype())).matmul(&up.convert(x.dtype())) * self.scale()
    }
}

impl VariableSpec {
    /// Whether this is a factor of an adapter.
    pub fn is_adapter(&self) -> bool {
        Adapters::FACTORS.iter().any(|ending| self.path.ends_with(ending))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_whole_steps_at_the_end_of_a_path() {
        let adapters = |targets: &[&str]| Adapters {
            rank: 4,
            alpha: 8.0,
            targets: targets.iter().map(|target| target.to_string()).collect(),
            except: vec!["head".into()],
        };
        assert!(adapters(&["qkv"]).includes("blocks.0.attn.qkv"));
        assert!(adapters(&["attn.proj"]).includes("blocks.0.attn.proj"));
        assert!(!adapters(&["attn.proj", "kv"]).includes("patch_embed.proj"));
        assert!(!adapters(&["kv"]).includes("blocks.0.attn.qkv"));
        assert!(adapters(&[Adapters::ALL]).includes("blocks.3.mlp.fc1"));
        assert!(!adapters(&[Adapters::ALL]).includes("head"));
    }
}
