//! How a convolution is cut into chunks of output rows.

use super::ConvGeometry;

/// How output rows are cut into chunks: input and output of a chunk should stay in the second-level cache, a chunk
/// should last long enough to be worth handing out, there should be many of them, and weights too large for the cache
/// should not be read for a few pixels only.
pub(super) struct ChunkRule {
    /// Bytes of an input element.
    pub element_bytes: usize,
    /// Work of a chunk at least.
    pub min_flops: f64,
    /// Pixels of a chunk at least.
    pub min_pixels: usize,
    /// Pixels of a chunk at least if the weights do not stay in the cache.
    pub streaming_pixels: usize,
}

impl ChunkRule {
    pub fn rows(&self, conv: &ConvGeometry) -> usize {
        const CACHE_BYTES: f64 = 512.0 * 1024.0;
        const MANY_CHUNKS: f64 = 64.0;
        let rows = (conv.batch * conv.output[0]).max(1) as f64;
        let width = conv.output[1].max(1) as f64;
        let bytes = (self.element_bytes * conv.input_len() + 4 * conv.output_len()) as f64 / rows;
        let fits = CACHE_BYTES / bytes.max(1.0);
        let many = (rows / MANY_CHUNKS).max(self.min_flops / (conv.flops() / rows).max(1.0));
        let streaming = self.element_bytes * conv.weights_len() > CACHE_BYTES as usize;
        let min_pixels = if streaming { self.streaming_pixels } else { self.min_pixels };
        let wanted = fits.min(many).max(min_pixels as f64 / width).clamp(1.0, rows);
        // A few chunks more make their number a multiple of four: so that two or four threads end together.
        let chunks = ((rows / wanted).ceil() / 4.0).ceil() * 4.0;
        (rows / chunks).ceil() as usize
    }
}
