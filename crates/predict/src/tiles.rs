//! Large images in overlapping tiles, whose results fade into each other.

use octant_imaging::Image;
use octant_imaging::geometry::{Border, PixelWindow, crop, pad_to, tile_starts};

/// Pixels that neighboring tiles share: more than most restoration networks look sideways.
const OVERLAP: usize = 64;

/// How an image of some size is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// Height and width of every tile; the image is mirrored at its edges to fill them.
    pub tile: [usize; 2],
    /// Pixels that two neighbors share, at least.
    overlap: usize,
}

impl Tiling {
    /// Tiles of at most `limit` pixels a side, whose sides are multiples of `multiple`. An image that fits is one tile.
    pub fn new(size: [usize; 2], limit: usize, multiple: usize) -> Tiling {
        let limit = (limit / multiple).max(1) * multiple;
        let tile = size.map(|side| side.next_multiple_of(multiple).min(limit));
        let overlap = OVERLAP.min(tile[0].min(tile[1]) / 4);
        Tiling { tile, overlap }
    }

    /// The first rows (or columns) of tiles along a side.
    fn starts(&self, axis: usize, side: usize) -> Vec<usize> {
        tile_starts(side, self.tile[axis], self.overlap)
    }

    /// Runs every tile of an image; `enlarges` is how many times larger the results are.
    pub fn run<E>(
        &self,
        image: &Image<u8>,
        enlarges: usize,
        mut run: impl FnMut(&Image<u8>) -> Result<Image<u8>, E>,
    ) -> Result<Image<u8>, E> {
        let [tall, wide] = self.tile;
        let filled = pad_to(image, tall, wide, Border::Reflect);
        let mut sums: Vec<f32> = Vec::new();
        let mut weights = vec![0.0f32; filled.height() * enlarges * filled.width() * enlarges];
        let (width, mut channels) = (filled.width() * enlarges, 0);
        for top in self.starts(0, filled.height()) {
            for left in self.starts(1, filled.width()) {
                let made = run(&crop(&filled, PixelWindow { top, left, height: tall, width: wide }))?;
                channels = made.channels();
                sums.resize(weights.len() * channels, 0.0);
                for row in 0..made.height() {
                    for column in 0..made.width() {
                        let weight =
                            self.weight(row, made.height(), enlarges) * self.weight(column, made.width(), enlarges);
                        let position = (top * enlarges + row) * width + left * enlarges + column;
                        weights[position] += weight;
                        let values = made.pixel(row, column).iter().enumerate();
                        values.for_each(|(channel, value)| {
                            sums[position * channels + channel] += weight * f32::from(*value)
                        });
                    }
                }
            }
        }
        let value = |row: usize, column: usize, channel: usize| {
            let position = row * width + column;
            (sums[position * channels + channel] / weights[position]).round() as u8
        };
        Ok(Image::from_fn(image.height() * enlarges, image.width() * enlarges, channels.max(1), value))
    }

    /// How much a pixel counts by its distance from the tile's edges: tiles fade within what they share.
    fn weight(&self, position: usize, side: usize, enlarges: usize) -> f32 {
        let fade = (self.overlap * enlarges).max(1);
        let distance = (position + 1).min(side - position).min(fade);
        distance as f32 / fade as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_an_image_and_give_it_back() {
        let image = Image::from_fn(210, 333, 3, |row, column, channel| (row * 7 + column * 3 + channel * 50) as u8);
        for (limit, multiple) in [(1024, 1), (128, 4), (96, 32), (64, 1)] {
            let tiling = Tiling::new([210, 333], limit, multiple);
            assert!(tiling.tile.iter().all(|side| side.is_multiple_of(multiple) && *side <= limit.max(multiple)));
            let same = tiling.run(&image, 1, |tile| Ok::<_, ()>(tile.clone())).unwrap();
            assert!(same == image, "{tiling:?}");
        }
        let doubled = Tiling::new([210, 333], 100, 4).run(&image, 2, |tile| {
            Ok::<_, ()>(Image::from_fn(2 * tile.height(), 2 * tile.width(), 3, |r, c, k| tile.pixel(r / 2, c / 2)[k]))
        });
        assert_eq!(doubled.unwrap().dims(), [420, 666, 3]);
    }
}
