//! A script for `sbatch`.

use super::{Accelerators, Job, shell};
use std::time::Duration;

/// As `sbatch --time` takes it.
fn limit(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60).max(1);
    format!("{}-{:02}:{:02}:00", minutes / 1440, minutes / 60 % 24, minutes % 60)
}

pub(super) fn script(job: &Job) -> String {
    let mut options = vec![
        format!("job-name={}", job.name),
        format!("nodes={}", job.nodes),
        "ntasks-per-node=1".to_string(),
        "exclusive".to_string(),
        "requeue".to_string(),
        // A requeued job continues its log.
        "open-mode=append".to_string(),
        "output=%x-%j.log".to_string(),
    ];
    if let Accelerators::Gpus { kind, count } = &job.accelerators {
        let kind = kind.as_ref().map(|kind| format!("{kind}:")).unwrap_or_default();
        options.push(format!("gpus-per-node={kind}{count}"));
    }
    options.extend(job.queue.as_ref().map(|queue| format!("partition={queue}")));
    if let Some(time) = job.time {
        options.push(format!("time={}", limit(time)));
        // To the processes, not to this script.
        options.push(format!("signal=USR1@{}", job.grace.as_secs()));
    }
    let options: String = options.iter().map(|option| format!("#SBATCH --{option}\n")).collect();
    // Without a limit there is no notice either.
    let command = if job.time.is_some() { job.knowing_grace(job.restarting()) } else { job.restarting() };
    let command = shell(&command);
    let wait = job.grace.as_secs() + 30;
    format!(
        r#"#!/bin/bash
{options}
# One process per node; each uses all accelerators of its node. --kill-on-bad-exit=0: the processes end each other, and say why.
srun --kill-on-bad-exit=0 --wait={wait} --label {command}
code=$?
# 75: a checkpoint was written because the time was nearly up. The same script continues from there.
if [ "$code" -eq 75 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"#
    )
}
