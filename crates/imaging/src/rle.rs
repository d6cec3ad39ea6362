//! Binary masks as runs, column by column, the form in which COCO keeps and compares them (Lin et al., 2014). The runs of a
//! polygon and all overlaps are those of its published code, pixel for pixel.

/// A mask of one object: how many pixels are off, then on, then off, and so on, down the columns from left to right.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Rle {
    height: usize,
    width: usize,
    counts: Vec<u32>,
}

impl Rle {
    /// From counts that begin with pixels that are off.
    pub fn new(height: usize, width: usize, counts: Vec<u32>) -> Result<Rle, String> {
        let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        match total == (height * width) as u64 {
            true => Ok(Rle { height, width, counts }),
            false => Err(format!("its runs have {total} pixels, an image of {height}×{width} has {}", height * width)),
        }
    }

    /// Where `is_on` of a row and a column holds.
    pub fn of(height: usize, width: usize, is_on: impl Fn(usize, usize) -> bool) -> Rle {
        let mut runs = Runs::default();
        for column in 0..width {
            (0..height).for_each(|row| runs.push(is_on(row, column), 1));
        }
        Rle { height, width, counts: runs.counts }
    }

    /// A window of a mask, row by row, in an image where everything else is off. Left and top say where it lies.
    pub fn of_window(size: [usize; 2], [left, top]: [usize; 2], columns: usize, window: &[bool]) -> Rle {
        let [height, width] = size;
        let rows = window.len().checked_div(columns).unwrap_or(0).min(height.saturating_sub(top));
        let columns_in = columns.min(width.saturating_sub(left));
        let mut runs = Runs::default();
        runs.push(false, (left.min(width) * height) as u32);
        for column in 0..columns_in {
            runs.push(false, top as u32);
            (0..rows).for_each(|row| runs.push(window[row * columns + column], 1));
            runs.push(false, (height - top - rows) as u32);
        }
        runs.push(false, ((width - left.min(width) - columns_in) * height) as u32);
        Rle { height, width, counts: runs.counts }
    }

    /// A polygon of x, y, x, y … in an image of that size. Its border is followed at a fifth of a pixel, and a pixel is on
    /// where its center lies inside or on the border's upper side.
    pub fn of_polygon(polygon: &[f64], height: usize, width: usize) -> Rle {
        const SCALE: f64 = 5.0;
        let corners: Vec<[i64; 2]> =
            polygon.as_chunks::<2>().0.iter().map(|p| p.map(|v| (SCALE * v + 0.5) as i32 as i64)).collect();
        let mut border: Vec<[i64; 2]> = Vec::new();
        for (start, end) in corners.iter().zip(corners.iter().cycle().skip(1)) {
            let (dx, dy) = ((end[0] - start[0]).abs(), (end[1] - start[1]).abs());
            let is_flat = dx >= dy;
            let backward = if is_flat { start[0] > end[0] } else { start[1] > end[1] };
            let (from, to) = if backward { (end, start) } else { (start, end) };
            let length = dx.max(dy);
            for step in 0..=length {
                let along = if backward { length - step } else { step };
                border.push(match is_flat {
                    // A repeated corner has no direction; it adds its own point again.
                    true if length == 0 => *from,
                    true => [
                        along + from[0],
                        (from[1] as f64 + (to[1] - from[1]) as f64 / dx as f64 * along as f64 + 0.5) as i64,
                    ],
                    false => [
                        (from[0] as f64 + (to[0] - from[0]) as f64 / dy as f64 * along as f64 + 0.5) as i64,
                        along + from[1],
                    ],
                });
            }
        }
        let mut switches: Vec<u32> = Vec::new();
        for pair in border.windows(2) {
            let ([before, old], [after, new]) = (pair[0], pair[1]);
            if before == after {
                continue;
            }
            let edge = if after < before { after } else { after - 1 };
            let column = (edge as f64 + 0.5) / SCALE - 0.5;
            if column.floor() != column || column < 0.0 || column > width as f64 - 1.0 {
                continue;
            }
            let row = ((old.min(new) as f64 + 0.5) / SCALE - 0.5).clamp(0.0, height as f64).ceil();
            switches.push((column as usize * height + row as usize) as u32);
        }
        switches.push((height * width) as u32);
        switches.sort_unstable();
        let mut runs = Runs::default();
        let (mut position, mut is_on) = (0, false);
        for switch in switches {
            runs.push(is_on, switch - position);
            (position, is_on) = (switch, !is_on);
        }
        Rle { height, width, counts: runs.counts }
    }

    /// Height and width of the image.
    pub fn size(&self) -> [usize; 2] {
        [self.height, self.width]
    }

    /// Pixels off, on, off and so on.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// How many pixels are on.
    pub fn area(&self) -> u64 {
        self.counts.iter().skip(1).step_by(2).map(|&count| u64::from(count)).sum()
    }

    /// Where pixels are on: from and to, counted down the columns.
    pub fn spans(&self) -> impl Iterator<Item = [u64; 2]> {
        let mut end = 0u64;
        let ends = self.counts.iter().map(move |&count| {
            let start = end;
            end += u64::from(count);
            [start, end]
        });
        ends.enumerate().filter(|(index, [start, end])| index % 2 == 1 && end > start).map(|(_, span)| span)
    }

    /// Left, top, width and height of the pixels that are on, as COCO's code has it; zeros where none is.
    pub fn bounds(&self) -> [f64; 4] {
        let height = self.height.max(1) as u64;
        let (mut low, mut high) = ([u64::MAX; 2], [0; 2]);
        for [start, end] in self.spans() {
            let ([first, last], rows) = ([start / height, (end - 1) / height], [start % height, (end - 1) % height]);
            // A span over the end of a column covers its last pixel and the next one's first.
            let rows = if first < last { [0, height - 1] } else { rows };
            low = [low[0].min(first), low[1].min(rows[0])];
            high = [high[0].max(last), high[1].max(rows[1])];
        }
        match low[0] > high[0] {
            true => [0.0; 4],
            false => [low[0], low[1], high[0] - low[0] + 1, high[1] - low[1] + 1].map(|value| value as f64),
        }
    }

    /// How many pixels are on in both.
    pub fn common(&self, other: &Rle) -> u64 {
        let (mut own, mut others) = (self.spans(), other.spans());
        let (mut a, mut b) = (own.next(), others.next());
        let mut total = 0;
        while let (Some([a0, a1]), Some([b0, b1])) = (a, b) {
            total += a1.min(b1).saturating_sub(a0.max(b0));
            if a1 <= b1 { a = own.next() } else { b = others.next() }
        }
        total
    }

    /// The pixels that are on in any of the masks of one image.
    pub fn union(masks: &[Rle]) -> Rle {
        let Some(first) = masks.first() else { return Rle::default() };
        let mut changes: Vec<(u64, i32)> =
            masks.iter().flat_map(Rle::spans).flat_map(|[start, end]| [(start, 1), (end, -1)]).collect();
        changes.sort_unstable_by_key(|&(position, change)| (position, -change));
        let mut runs = Runs::default();
        let (mut position, mut depth) = (0, 0);
        for (at, change) in changes {
            runs.push(depth > 0, (at - position) as u32);
            (position, depth) = (at, depth + change);
        }
        runs.push(false, ((first.height * first.width) as u64 - position) as u32);
        Rle { counts: runs.counts, ..first.clone() }
    }

    /// Intersection over union; of a group (`crowd`), the share of this mask that lies in it.
    pub fn iou(&self, other: &Rle, crowd: bool) -> f64 {
        let common = self.common(other);
        let whole = if crowd { self.area() } else { self.area() + other.area() - common };
        if common == 0 { 0.0 } else { common as f64 / whole as f64 }
    }

    /// Whether every pixel is on, row by row.
    pub fn pixels(&self) -> Vec<bool> {
        let mut pixels = vec![false; self.height * self.width];
        for [start, end] in self.spans() {
            for position in start as usize..end as usize {
                pixels[position % self.height * self.width + position / self.height] = true;
            }
        }
        pixels
    }

    /// COCO's text for the counts: six bits per character, counts from the third on as differences to the one before last.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (index, &count) in self.counts.iter().enumerate() {
            let mut value = i64::from(count) - if index > 2 { i64::from(self.counts[index - 2]) } else { 0 };
            loop {
                let bits = value & 0x1f;
                value >>= 5;
                let more = if bits & 0x10 != 0 { value != -1 } else { value != 0 };
                text.push((bits as u8 + if more { 0x20 } else { 0 } + 48) as char);
                if !more {
                    break;
                }
            }
        }
        text
    }

    /// The mask of COCO's text.
    pub fn of_text(text: &str, height: usize, width: usize) -> Result<Rle, String> {
        let damaged = || "its compressed runs are damaged".to_string();
        let mut counts: Vec<u32> = Vec::new();
        let mut characters = text.bytes();
        while let Some(first) = characters.next() {
            let (mut value, mut shift, mut byte) = (0i64, 0, first);
            loop {
                let bits = byte.checked_sub(48).filter(|bits| *bits < 64).ok_or_else(damaged)?;
                value |= i64::from(bits & 0x1f) << shift;
                shift += 5;
                if bits & 0x20 == 0 {
                    if bits & 0x10 != 0 {
                        value |= -1 << shift;
                    }
                    break;
                }
                byte = characters.next().filter(|_| shift < 50).ok_or_else(damaged)?;
            }
            if counts.len() > 2 {
                value += i64::from(counts[counts.len() - 2]);
            }
            counts.push(u32::try_from(value).map_err(|_| damaged())?);
        }
        Rle::new(height, width, counts)
    }

    /// The borders of the parts that hang together by sides, each as points around it and whether it is a hole; outer ones
    /// come before the holes in them.
    pub fn rings(&self) -> Vec<(Vec<[f64; 2]>, bool)> {
        let ([height, width], pixels) = (self.size(), self.pixels());
        let is_on = |row: i64, column: i64| {
            row >= 0
                && column >= 0
                && (row as usize) < height
                && (column as usize) < width
                && pixels[row as usize * width + column as usize]
        };
        // Edges between a pixel that is on and one that is off, directed so that the pixel lies to their right.
        let mut visited = vec![false; (height + 1) * (width + 1)];
        let mut rings = Vec::new();
        for row in 0..height as i64 {
            for column in 0..width as i64 {
                let starts = is_on(row, column) && !is_on(row - 1, column);
                if !starts || visited[row as usize * (width + 1) + column as usize] {
                    continue;
                }
                let ring = follow(row, column, is_on, |row, column| {
                    visited[row as usize * (width + 1) + column as usize] = true
                });
                let doubled: f64 =
                    ring.iter().zip(ring.iter().cycle().skip(1)).map(|(a, b)| a[0] * b[1] - b[0] * a[1]).sum();
                rings.push((ring, doubled < 0.0));
            }
        }
        // Larger ones first: what lies in a hole is set again after it.
        rings.sort_by(|a, b| crate::polygon::area(&b.0).total_cmp(&crate::polygon::area(&a.0)));
        rings
    }
}

/// The corners of the border that begins with the upper edge of a pixel. `top` is called for every upper edge on it.
fn follow(row: i64, column: i64, is_on: impl Fn(i64, i64) -> bool, mut top: impl FnMut(i64, i64)) -> Vec<[f64; 2]> {
    // Right, down, left, up; per direction the pixels ahead to the left and to the right of a corner.
    const STEPS: [[i64; 2]; 4] = [[0, 1], [1, 0], [0, -1], [-1, 0]];
    const AHEAD: [[[i64; 2]; 2]; 4] = [[[-1, 0], [0, 0]], [[0, 0], [0, -1]], [[0, -1], [-1, -1]], [[-1, -1], [-1, 0]]];
    let mut corners = Vec::new();
    let (mut at, mut direction) = ([row, column], 0usize);
    loop {
        if direction == 0 {
            top(at[0], at[1]);
        }
        at = [at[0] + STEPS[direction][0], at[1] + STEPS[direction][1]];
        let [left, right] = AHEAD[direction].map(|[dy, dx]| is_on(at[0] + dy, at[1] + dx));
        // Pixels that touch by a corner alone are apart.
        let turned = match (left, right) {
            (_, false) => (direction + 1) % 4,
            (true, true) => (direction + 3) % 4,
            (false, true) => direction,
        };
        if turned != direction {
            corners.push([at[1] as f64, at[0] as f64]);
        }
        direction = turned;
        if at == [row, column] && direction == 0 {
            return corners;
        }
    }
}

/// Counts while they are collected: neighbors of the same kind are one run.
#[derive(Default)]
struct Runs {
    counts: Vec<u32>,
}

impl Runs {
    fn push(&mut self, is_on: bool, count: u32) {
        if self.counts.is_empty() {
            self.counts.push(0);
        }
        let last_is_on = self.counts.len().is_multiple_of(2);
        if last_is_on == is_on {
            *self.counts.last_mut().expect("a run was begun") += count;
        } else if count > 0 {
            self.counts.push(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(rows: &[&str]) -> Rle {
        let rows: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
        Rle::of(rows.len(), rows[0].len(), |row, column| rows[row][column] == b'#')
    }

    #[test]
    fn masks_come_back_from_runs_texts_and_rings() {
        let mask = drawn(&["..##..", ".#..#.", ".#.##.", "..##.#", "......"]);
        assert_eq!(Rle::of_text(&mask.text(), 5, 6).unwrap(), mask);
        let pixels = mask.pixels();
        assert_eq!(Rle::of(5, 6, |row, column| pixels[row * 6 + column]), mask);
        let mut filled = vec![false; 30];
        for (ring, is_hole) in mask.rings() {
            crate::polygon::fill(&ring, 5, 6, |row, columns| {
                columns.for_each(|column| filled[row * 6 + column] = !is_hole)
            });
        }
        assert_eq!(filled, pixels);
        assert_eq!((mask.area(), mask.bounds()), (10, [1.0, 0.0, 5.0, 4.0]));
    }

    #[test]
    fn windows_and_unions() {
        let window = Rle::of_window([4, 5], [3, 1], 3, &[true, true, true, false, true, true]);
        assert_eq!(window, drawn(&[".....", "...##", "....#", "....."]));
        let left = drawn(&["##...", "##...", ".....", "....."]);
        let all = Rle::union(&[left.clone(), window.clone(), left.clone()]);
        assert_eq!(all, drawn(&["##...", "##.##", "....#", "....."]));
        assert_eq!((all.common(&left), all.iou(&left, false), left.iou(&all, true)), (4, 4.0 / 7.0, 1.0));
        assert!(Rle::new(4, 5, vec![3, 4]).unwrap_err().contains("7 pixels"));
        assert!(Rle::of_text("~", 4, 5).is_err());
    }
}
