use super::*;

fn noise(count: usize) -> Vec<u8> {
    (0..count as u32).map(|position| (position.wrapping_mul(2_654_435_761) >> 19) as u8).collect()
}

fn spread(position: usize) -> i16 {
    (position * 619 % 2049) as i16
}

#[test]
fn vectors_and_plain_loops_give_the_same_sums() {
    let row = noise(3 * 41 + PADDING);
    let mut columns = Columns::default();
    (0..39).for_each(|position| columns.push(position * 17 % 40, [ONE - spread(position), spread(position)]));
    let mut sums = vec![[0; 4]; 39];
    columns.sum(&row, &mut sums);
    for (position, sum) in sums.iter().enumerate() {
        let weights = [ONE - spread(position), spread(position)];
        assert_eq!(*sum, sum_pair(&row[3 * (position * 17 % 40)..][..6], weights), "output {position}");
    }
}

#[test]
fn vectors_and_plain_loops_give_the_same_samples() {
    let (stride, height) = (3 * 23, 9);
    let image = noise(stride * height + PADDING);
    let mut spots = Spots::new(31);
    for number in 0..31 {
        let (columns, rows) = (spread(number) as u32, 8 * spread(number + 7) as u32);
        spots.offsets[number] = (number * 5 % (height - 1) * stride + 3 * (number * 7 % 22)) as u32;
        spots.columns[number] = (ONE as u32 - columns) | columns << 16;
        spots.rows[number] = rows | (ONE_ROW as u32 - rows) << 16;
    }
    let mut output = vec![[9; 4]; 31];
    sample(&image, stride, &spots, &mut output);
    for (number, lanes) in output.iter().enumerate() {
        let offset = spots.offsets[number] as usize;
        let columns = [ONE - spread(number), spread(number)];
        let rows = [8 * spread(number + 7), ONE_ROW - 8 * spread(number + 7)];
        let pairs = [offset, offset + stride].map(|offset| &image[offset..][..6]);
        for channel in 0..3 {
            let mean = |[a, b]: [f64; 2], [first, second]: [i16; 2]| {
                (a * f64::from(first) + b * f64::from(second)) / f64::from(first + second)
            };
            let along = |pair: &[u8]| mean([pair[channel], pair[channel + 3]].map(f64::from), columns);
            let exact = mean(pairs.map(along), rows);
            assert!((exact - f64::from(lanes[channel])).abs() <= 0.54, "{exact} became {}", lanes[channel]);
        }
        let [upper, lower] = pairs.map(|pair| sum_pair(pair, columns));
        let mut plain = [0; 4];
        blend_rows(&upper, &lower, rows, &mut plain);
        assert_eq!(*lanes, plain);
    }
}
