//! The network of a run by its blocks, for the board.

use crate::Result;
use octant_recipe::Recipe;
use octant_train::network::{Block, blocks};
use octant_train::run::RunPlan;
use serde_json::json;

/// `network.json`: what every block of the last phase's network returns, holds and costs.
pub(crate) fn described(recipe: &Recipe, plan: &RunPlan) -> Result<String> {
    let Some(phase) = plan.phases.last() else { return Ok("null".into()) };
    let blocks = blocks(&phase.step(&plan.step, &plan.mesh))?;
    let block = |block: &Block| {
        let (path, output) = (&block.path, block.output.to_string());
        json!({ "path": path, "output": output, "parameters": block.parameters, "flops": block.flops })
    };
    Ok(json!({ "model": recipe.model, "blocks": blocks.iter().map(block).collect::<Vec<_>>() }).to_string())
}
