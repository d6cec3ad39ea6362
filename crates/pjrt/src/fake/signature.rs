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
    let outputs: Option<Vec<Output>> = results.split("tensor<").skip(1).map(|result| output(result, devices)).collect();
    Some(Main { outputs: outputs?, donates: donates.collect(), devices: devices as usize })
}

fn after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.split_once(words).map(|(_, rest)| rest)
}

/// `16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"batch"}, {}]>}`
fn output(text: &str, devices: i64) -> Option<Output> {
    let (shape, attributes) = text.split_once('>')?;
    let mut words: Vec<&str> = shape.split('x').collect();
    let element = element(words.pop()?)?;
    let mut dims = words.into_iter().map(|dim| dim.parse().ok()).collect::<Option<Vec<i64>>>()?;
    let axes = after(attributes, "@mesh, [").unwrap_or_default().split(", ");
    for (dim, axis) in dims.iter_mut().zip(axes) {
        if axis.contains("batch") {
            *dim /= devices;
        }
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
