//! Manifests for Kubernetes: an indexed Job behind a headless service, or a JobSet.

use super::{Accelerators, Job, yaml};
use crate::place::PORT;

/// A service without an address of its own gives every pod a name that the others can look up.
pub(super) fn job(job: &Job) -> Result<String, String> {
    let name = &job.name;
    let service = format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  clusterIP: None\n  publishNotReadyAddresses: true\n  \
         selector:\n    job-name: {name}\n  ports:\n  - name: coordinator\n    port: {PORT}\n"
    );
    let spec = indented(&spec(job, &format!("{name}-0.{name}"), Some(name), false)?, 2);
    Ok(format!("{service}---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n{spec}"))
}

/// A JobSet has a service of its own, and starts all pods again when one fails.
pub(super) fn job_set(job: &Job) -> Result<String, String> {
    let name = &job.name;
    let queue = job.queue.as_ref().map(|queue| format!("  labels:\n    kueue.x-k8s.io/queue-name: {}\n", yaml(queue)));
    let spec = indented(&spec(job, &format!("{name}-train-0-0.{name}"), None, true)?, 8);
    Ok(format!(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata:\n  name: {name}\n{}spec:\n  failurePolicy:\n    \
         maxRestarts: {}\n  replicatedJobs:\n  - name: train\n    replicas: 1\n    template:\n      spec:\n{spec}",
        queue.unwrap_or_default(),
        job.restarts
    ))
}

fn indented(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{:by$}{line}\n", "")).collect()
}

/// The spec of an indexed Job.
fn spec(job: &Job, coordinator: &str, subdomain: Option<&str>, in_set: bool) -> Result<String, String> {
    let image = job.image.as_ref().ok_or("pods run in containers: give --image")?;
    let (nodes, grace) = (job.nodes, job.grace.as_secs());
    // In a set, all pods are started again by it. Alone, a pod is started again with the place of the one that failed, and the
    // other processes, which end themselves when one is lost, likewise.
    let backoff = if in_set { 0 } else { u64::from(job.restarts) * nodes as u64 };
    let deadline = job.time.map(|time| format!("activeDeadlineSeconds: {}\n", time.as_secs()));
    let subdomain = subdomain.map(|name| format!("    subdomain: {name}\n"));
    let (resources, selector) = match &job.accelerators {
        Accelerators::None => (None, None),
        Accelerators::Gpus { count, .. } => (Some(("nvidia.com/gpu", count)), None),
        Accelerators::Tpus { label, topology, count } => (Some(("google.com/tpu", count)), Some((label, topology))),
    };
    let resources = resources.map(|(resource, count)| {
        format!("      resources:\n        limits:\n          {resource}: {count}\n        requests:\n          {resource}: {count}\n")
    });
    let selector = selector.map(|(label, topology)| {
        format!(
            "    nodeSelector:\n      cloud.google.com/gke-tpu-accelerator: {}\n      cloud.google.com/gke-tpu-topology: {}\n",
            yaml(label),
            yaml(topology)
        )
    });
    let words: String =
        job.knowing_grace(job.arguments()).iter().map(|word| format!("      - {}\n", yaml(word))).collect();
    let variable = |name: &str, value: &str| format!("      - name: {name}\n        value: {}\n", yaml(value));
    let mut variables = variable("OCTANT_NUM_NODES", &nodes.to_string()) + &variable("OCTANT_COORDINATOR", coordinator);
    if in_set {
        // Keys of an earlier attempt must not be read by the next one.
        variables += "      - name: JOBSET_RESTART_ATTEMPT\n        valueFrom:\n          fieldRef:\n            fieldPath: \
                      metadata.labels['jobset.sigs.k8s.io/restart-attempt']\n";
    }
    Ok(format!(
        "parallelism: {nodes}\ncompletions: {nodes}\ncompletionMode: Indexed\nbackoffLimit: {backoff}\n{}template:\n  spec:\n    \
         restartPolicy: Never\n{}    terminationGracePeriodSeconds: {grace}\n{}    containers:\n    - name: octant\n      image: {}\n      \
         command:\n{words}      env:\n{variables}      ports:\n      - containerPort: {PORT}\n{}      volumeMounts:\n      - name: \
         shared-memory\n        mountPath: /dev/shm\n    volumes:\n    - name: shared-memory\n      emptyDir:\n        medium: Memory\n",
        deadline.unwrap_or_default(),
        subdomain.unwrap_or_default(),
        selector.unwrap_or_default(),
        yaml(image),
        resources.unwrap_or_default()
    ))
}
