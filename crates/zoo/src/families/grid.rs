//! Strides that become dilations, so that a network looks as far as with strides but its last maps stay large: timm's rule for its
//! `output_stride`.

/// What the blocks of a network do to the grid of pixels, one block after the other.
#[derive(Debug)]
pub(super) struct OutputStride {
    /// The image's size over the smallest map's.
    limit: usize,
    reached: usize,
    dilation: usize,
}

impl OutputStride {
    /// Maps get no smaller than the image over `limit`; the first convolution has halved them.
    pub fn new(limit: usize) -> OutputStride {
        OutputStride { limit, reached: 2, dilation: 1 }
    }

    /// The stride and the dilation of the next block. One that keeps its size instead of a stride still looks at the grid before it;
    /// those behind it are dilated.
    pub fn next(&mut self, stride: usize) -> [usize; 2] {
        let dilation = self.dilation;
        if self.reached * stride > self.limit {
            self.dilation *= stride;
            return [1, dilation];
        }
        self.reached *= stride;
        [stride, dilation]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_beyond_the_limit_become_dilations_of_what_follows() {
        let all = |limit| {
            let mut grid = OutputStride::new(limit);
            [1, 2, 1, 2, 1, 2, 1, 2, 1].map(|stride| grid.next(stride))
        };
        assert_eq!(all(32), [[1, 1], [2, 1], [1, 1], [2, 1], [1, 1], [2, 1], [1, 1], [2, 1], [1, 1]]);
        assert_eq!(all(16)[5..], [[2, 1], [1, 1], [1, 1], [1, 2]]);
        assert_eq!(all(8)[5..], [[1, 1], [1, 2], [1, 2], [1, 4]]);
    }
}
