//! Which of several GPUs: by number, or the idlest one.

use crate::error::{DeviceError, Result};
use std::path::Path;
use std::process::Command;

/// The GPUs that `0`, `0,1` or `idle` name.
pub(super) fn chosen(wanted: &str) -> Result<Vec<i64>> {
    if wanted == "idle" {
        return Ok(vec![idlest(&memory_in_use()?)?]);
    }
    let numbers = numbers(wanted)?;
    let missing = |number: &&i64| !Path::new(&format!("/dev/nvidia{number}")).exists();
    match numbers.iter().find(missing) {
        // Without any, the sentence about the driver says more.
        Some(number) if Path::new("/dev/nvidia0").exists() => {
            Err(DeviceError::Gpu(format!("there is no GPU {number} here; `octant devices` lists those there are")))
        }
        _ => Ok(numbers),
    }
}

fn numbers(wanted: &str) -> Result<Vec<i64>> {
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|number| *number >= 0);
    let numbers: Option<Vec<i64>> = wanted.split(',').map(number).collect();
    let mut numbers = numbers.ok_or_else(|| {
        DeviceError::Gpu(format!(
            "`device = \"cuda:{wanted}\"`: write numbers of GPUs, such as cuda:0 or cuda:0,1, or cuda:idle"
        ))
    })?;
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() < count {
        return Err(DeviceError::Gpu(format!("`device = \"cuda:{wanted}\"` names a GPU twice")));
    }
    Ok(numbers)
}

/// A line per GPU: its number and the memory in use, in MiB.
fn memory_in_use() -> Result<String> {
    let query = ["--query-gpu=index,memory.used", "--format=csv,noheader,nounits"];
    let output = Command::new("nvidia-smi").args(query).output();
    let output = output.ok().filter(|output| output.status.success());
    let output = output.ok_or_else(|| {
        DeviceError::Gpu("finding an idle GPU needs a working nvidia-smi; name one, as in cuda:0".into())
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The GPU with the least memory in use; of equal ones the first.
fn idlest(lines: &str) -> Result<i64> {
    let pair = |line: &str| {
        let (number, used) = line.split_once(',')?;
        Some((used.trim().parse::<u64>().ok()?, number.trim().parse::<i64>().ok()?))
    };
    lines
        .lines()
        .filter_map(pair)
        .min()
        .map(|(_, number)| number)
        .ok_or_else(|| DeviceError::Gpu("nvidia-smi lists no GPU".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_named_by_number_or_by_being_idle() {
        assert_eq!(numbers("1,0").unwrap(), [0, 1]);
        assert_eq!(idlest("0, 1040\n1, 12\n2, 12\n").unwrap(), 1);
        for wrong in ["", "a", "0,,1", "-1", "1,1"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
        assert!(idlest("").is_err());
    }
}
