//! A task for `sky launch`.

use super::{Accelerators, Job, shell, yaml};

pub(super) fn task(job: &Job) -> String {
    let accelerators = match &job.accelerators {
        Accelerators::None => String::new(),
        Accelerators::Gpus { kind, count } => {
            let kind = kind.as_deref().map_or("GPU".to_string(), str::to_uppercase);
            format!("  accelerators: {kind}:{count}\n")
        }
        Accelerators::Tpus { label, topology, .. } => {
            format!("  accelerators: {label}\n  accelerator_args:\n    topology: {}\n", yaml(topology))
        }
    };
    let image = job.image.as_ref().map(|image| format!("  image_id: {}\n", yaml(&format!("docker:{image}"))));
    let setup = if image.is_some() { "octant --version" } else { "pip install octant-vision && octant --version" };
    let resources = format!("{accelerators}{}", image.unwrap_or_default());
    let resources = if resources.is_empty() { String::new() } else { format!("resources:\n{resources}") };
    format!(
        "name: {}\nnum_nodes: {}\n{resources}setup: {}\nrun: {}\n",
        yaml(&job.name),
        job.nodes,
        yaml(setup),
        yaml(&shell(&job.restarting()))
    )
}
