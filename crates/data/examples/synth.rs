//! Writes the synthetic data sets, for a look at them: `synth OUT [COUNT] [SIDE]`.

use octant_data::synth::{write_infrared, write_regression, write_shapes};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: synth OUT [COUNT] [SIDE]")?);
    let count = arguments.next().map_or(Ok(24), |text| text.parse())?;
    let side = arguments.next().map_or(Ok(256), |text| text.parse())?;
    write_infrared(&folder.join("irstd"), count, side, 1)?;
    write_shapes(&folder.join("shapes"), count, side / 2, 1)?;
    write_regression(&folder.join("regression"), count, side / 2, 1)?;
    Ok(())
}
