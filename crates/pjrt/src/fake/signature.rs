//! What the fake reads of a StableHLO module: the shapes of what `@main` returns on each device, and what it takes over.

use crate::sys::*;

/// The signature of `@main`.
pub(super) struct Main {
    pub outputs: Vec<Output>,
    /// The arguments whose memory outputs take over.
    pub donates: Vec<usize>,
    pub devices: usize,
}

/// One output on one device.
#[derive(Clone)]
pub(super) struct Output {
    pub element: PJRT_Buffer_Type,
    pub dims: Vec<i64>,
}

/// The signature in a module's text; none where there is no module.
pub(super) fn main(text: &str) -> Option<Main> {
    let devices = after(text, "mhlo.num_partitions = ")?.split(' ').next()?.parse().ok()?;
    let line = after(text, "func.func public @main(")?.lines().next()?;
    let (arguments, results) = line.split_once(") -> (")?;
    let donates = arguments.split("%arg").skip(1).enumerate();
    let donates = donates.filter(|(_, argument)| argument.contains("tf.aliasing_output")).map(|(index, _)| index);
    let axes = axes(text);
    let outputs: Option<Vec<Output>> = results.split("tensor<").skip(1).map(|result| output(result, &axes)).collect();
    Some(Main { outputs: outputs?, donates: donates.collect(), devices })
}

fn after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.split_once(words).map(|(_, rest)| rest)
}

/// Names and lengths of `sdy.mesh @mesh = <["data"=2, "fsdp"=4]>`.
fn axes(text: &str) -> Vec<(String, i64)> {
    let list = after(text, "sdy.mesh @mesh = <[").and_then(|rest| rest.split(']').next()).unwrap_or_default();
    let axis = |axis: &str| {
        let (name, length) = axis.split_once('=')?;
        Some((name.trim().to_string(), length.trim().parse().ok()?))
    };
    list.split(',').filter_map(axis).collect()
}

/// `16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "fsdp"}, {}]>}`
fn output(text: &str, axes: &[(String, i64)]) -> Option<Output> {
    let (shape, attributes) = text.split_once('>')?;
    let mut words: Vec<&str> = shape.split('x').collect();
    let element = element(words.pop()?)?;
    let mut dims = words.into_iter().map(|dim| dim.parse().ok()).collect::<Option<Vec<i64>>>()?;
    let split = after(attributes, "@mesh, [").unwrap_or_default().split('{').skip(1);
    for (dim, split) in dims.iter_mut().zip(split) {
        let split = split.split('}').next().unwrap_or_default();
        axes.iter().filter(|(name, _)| split.contains(name.as_str())).for_each(|(_, length)| *dim /= length);
    }
    Some(Output { element, dims })
}

fn element(name: &str) -> Option<PJRT_Buffer_Type> {
    Some(match name {
        "i1" => PJRT_Buffer_Type_PRED,
        "i8" => PJRT_Buffer_Type_S8,
        "i16" => PJRT_Buffer_Type_S16,
        "i32" => PJRT_Buffer_Type_S32,
        "i64" => PJRT_Buffer_Type_S64,
        "ui8" => PJRT_Buffer_Type_U8,
        "ui16" => PJRT_Buffer_Type_U16,
        "ui32" => PJRT_Buffer_Type_U32,
        "ui64" => PJRT_Buffer_Type_U64,
        "f16" => PJRT_Buffer_Type_F16,
        "bf16" => PJRT_Buffer_Type_BF16,
        "f32" => PJRT_Buffer_Type_F32,
        "f64" => PJRT_Buffer_Type_F64,
        _ => return None,
    })
}
