//! The descriptor of a convolution kernel's call, and the part of it that the kernel reads.

/// A convolution, or the gradient of a convolution's kernel, with what is fused into it. All numbers are those of the
/// convolution, also for the gradient of its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvDescriptor {
    /// Height and width of the kernel.
    pub side: i64,
    /// Of an element.
    pub bits: i64,
    pub inputs: i64,
    pub outputs: i64,
    pub strides: [i64; 2],
    pub low_padding: [i64; 2],
    pub input_dilation: [i64; 2],
    pub kernel_dilation: [i64; 2],
    /// Whether the last tap comes first.
    pub reversed: bool,
    /// Whether the kernel holds a row of input channels for every output channel.
    pub transposed: bool,
    pub pointwise: Pointwise,
    /// Whether the input is still to be multiplied by a scale per channel, shifted, and put through a ReLU.
    pub norm_relu: bool,
    /// Whether the moments of the output's channels are outputs too.
    pub moments: bool,
    /// Whether the output is the cotangent of a fused norm + ReLU, whose sums are an output too.
    pub cotangent: bool,
}

/// A 1×1 convolution of as many channels that the same call computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pointwise {
    #[default]
    None,
    /// It reads the same input and has an output of its own.
    Beside,
    /// It reads an input of its own and is added: the gradient of both with respect to their common input.
    Added,
}

/// How many integers a descriptor is encoded in.
const LENGTH: usize = 19;

impl ConvDescriptor {
    pub fn encode(&self) -> Vec<i64> {
        let head = [self.side, self.bits, self.inputs, self.outputs];
        let pairs = [self.strides, self.low_padding, self.input_dilation, self.kernel_dilation].concat();
        let flags = [
            self.reversed,
            self.transposed,
            self.pointwise == Pointwise::Beside,
            self.pointwise == Pointwise::Added,
            self.norm_relu,
            self.moments,
            self.cotangent,
        ];
        [&head[..], &pairs, &flags.map(i64::from)].concat()
    }

    pub fn decode(integers: &[i64]) -> Result<ConvDescriptor, String> {
        let numbers: [i64; LENGTH] =
            integers.try_into().map_err(|_| "a convolution's descriptor has the wrong length".to_string())?;
        let [side, bits, inputs, outputs, sy, sx, ly, lx, iy, ix, ky, kx, flags @ ..] = numbers;
        let [reversed, transposed, beside, added, norm_relu, moments, cotangent] = flags.map(|flag| flag != 0);
        let pointwise = match (beside, added) {
            (false, false) => Pointwise::None,
            (true, false) => Pointwise::Beside,
            (false, true) => Pointwise::Added,
            (true, true) => return Err("a 1×1 convolution is either beside another one or added to it".to_string()),
        };
        if [side, bits, inputs, outputs].iter().any(|&number| number < 1) {
            return Err("a convolution's descriptor has a size below 1".to_string());
        }
        Ok(ConvDescriptor {
            side,
            bits,
            inputs,
            outputs,
            strides: [sy, sx],
            low_padding: [ly, lx],
            input_dilation: [iy, ix],
            kernel_dilation: [ky, kx],
            reversed,
            transposed,
            pointwise,
            norm_relu,
            moments,
            cotangent,
        })
    }

    /// Whether it has neither strides nor dilation.
    pub fn is_plain(&self) -> bool {
        [self.strides, self.input_dilation, self.kernel_dilation] == [[1, 1]; 3]
    }

    /// Whether sums of the output are outputs too.
    pub fn has_sums(&self) -> bool {
        self.moments || self.cotangent
    }
}

/// Images, height, width, channels.
pub type Images = [i64; 4];

/// What the kernels read, in the order of their header.
pub fn geometry(input: &Images, output: &Images, descriptor: &ConvDescriptor) -> Result<[i32; 16], String> {
    let [count, height, width, channels] = *input;
    let sizes = [count, channels, output[3], height, width, output[1], output[2]];
    let ConvDescriptor { strides, low_padding, input_dilation, kernel_dilation, reversed, .. } = *descriptor;
    let pairs = [strides, low_padding, input_dilation, kernel_dilation].concat();
    let mut fields = [0; 16];
    for (field, value) in fields.iter_mut().zip(sizes.into_iter().chain(pairs).chain([i64::from(reversed)])) {
        *field = i32::try_from(value).map_err(|_| format!("{value} is too much for a convolution"))?;
    }
    Ok(fields)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn plain(side: i64, bits: i64, inputs: i64, outputs: i64) -> ConvDescriptor {
        let (ones, low_padding) = ([1; 2], [side / 2; 2]);
        ConvDescriptor {
            side,
            bits,
            inputs,
            outputs,
            strides: ones,
            low_padding,
            input_dilation: ones,
            kernel_dilation: ones,
            reversed: false,
            transposed: false,
            pointwise: Pointwise::None,
            norm_relu: false,
            moments: false,
            cotangent: false,
        }
    }

    #[test]
    fn the_geometry_has_the_order_of_the_header() {
        let descriptor = ConvDescriptor {
            strides: [2, 1],
            low_padding: [-1, 2],
            kernel_dilation: [3, 4],
            reversed: true,
            ..plain(5, 32, 12, 24)
        };
        let made = geometry(&[8, 30, 40, 12], &[8, 15, 40, 24], &descriptor);
        assert_eq!(made, Ok([8, 12, 24, 30, 40, 15, 40, 2, 1, -1, 2, 1, 1, 3, 4, 1]));
        assert!(geometry(&[1 << 40, 1, 1, 1], &[1; 4], &descriptor).is_err());
    }

    #[test]
    fn descriptors_survive_being_encoded() {
        let descriptors = [
            ConvDescriptor { reversed: true, moments: true, pointwise: Pointwise::Beside, ..plain(3, 32, 48, 16) },
            ConvDescriptor { transposed: true, pointwise: Pointwise::Added, ..plain(7, 16, 2, 1) },
            ConvDescriptor { norm_relu: true, cotangent: true, low_padding: [-1, 2], ..plain(3, 32, 32, 32) },
        ];
        for descriptor in descriptors {
            assert_eq!(ConvDescriptor::decode(&descriptor.encode()), Ok(descriptor));
        }
        assert!(ConvDescriptor::decode(&[3, 16, 1, 1]).is_err_and(|error| error.contains("length")));
        assert!(ConvDescriptor::decode(&[0; LENGTH]).is_err());
    }
}
