//! Where a box is and how it moves, as a filter that follows its measurements.

use octant_metrics::boxes::Rectangle;

/// How far positions and speeds are off, as a share of the box's height.
const POSITION: f64 = 1.0 / 20.0;
const SPEED: f64 = 1.0 / 160.0;

/// One quantity and its speed: a Kalman filter over two states.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Moving {
    value: f64,
    speed: f64,
    /// The variance of the value, the covariance of both, and the variance of the speed.
    covariance: [f64; 3],
}

impl Moving {
    fn new(value: f64, deviations: [f64; 2]) -> Moving {
        let [own, speed] = deviations.map(|deviation| deviation * deviation);
        Moving { value, speed: 0.0, covariance: [own, 0.0, speed] }
    }

    fn advance(&mut self, deviations: [f64; 2]) {
        let [a, b, c] = self.covariance;
        let [own, speed] = deviations.map(|deviation| deviation * deviation);
        self.value += self.speed;
        self.covariance = [a + 2.0 * b + c + own, b + c, c + speed];
    }

    fn correct(&mut self, measured: f64, deviation: f64) {
        let [a, b, c] = self.covariance;
        let expected = a + deviation * deviation;
        let (gain, of_speed) = (a / expected, b / expected);
        let error = measured - self.value;
        self.value += gain * error;
        self.speed += of_speed * error;
        self.covariance = [a - gain * a, b - gain * b, c - of_speed * b];
    }
}

/// The motion of a box: center, ratio of width to height, and height, each with its speed. These are the eight states of SORT's
/// and ByteTrack's filter. Its noise is independent for the four, so that they are four filters over two states each: the result
/// is that of the filter over eight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Motion {
    x: Moving,
    y: Moving,
    ratio: Moving,
    height: Moving,
}

/// Center, ratio of width to height, and height.
fn measured(place: &Rectangle) -> [f64; 4] {
    // A box without height has no ratio.
    let height = place.height.max(1e-6);
    [place.x + place.width / 2.0, place.y + place.height / 2.0, place.width / height, height]
}

impl Motion {
    /// At rest, where the box is.
    pub fn new(place: &Rectangle) -> Motion {
        let [x, y, ratio, height] = measured(place);
        let deviations = [2.0 * POSITION * height, 10.0 * SPEED * height];
        Motion {
            x: Moving::new(x, deviations),
            y: Moving::new(y, deviations),
            ratio: Moving::new(ratio, [1e-2, 1e-5]),
            height: Moving::new(height, deviations),
        }
    }

    /// One frame later.
    pub fn advance(&mut self) {
        let deviations = [POSITION, SPEED].map(|share| share * self.height.value);
        [&mut self.x, &mut self.y, &mut self.height].into_iter().for_each(|part| part.advance(deviations));
        self.ratio.advance([1e-2, 1e-5]);
    }

    /// A box that was not seen no longer grows.
    pub fn stop_growing(&mut self) {
        self.height.speed = 0.0;
    }

    /// The box was seen.
    pub fn correct(&mut self, place: &Rectangle) {
        let [x, y, ratio, height] = measured(place);
        let deviation = POSITION * self.height.value;
        self.x.correct(x, deviation);
        self.y.correct(y, deviation);
        self.ratio.correct(ratio, 1e-1);
        self.height.correct(height, deviation);
    }

    /// Where it is.
    pub fn place(&self) -> Rectangle {
        let (height, width) = (self.height.value, self.ratio.value * self.height.value);
        Rectangle { x: self.x.value - width / 2.0, y: self.y.value - height / 2.0, width, height }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `golden/kalman.py` computed them with the whole filter over eight states.
    #[test]
    fn four_filters_over_two_states_are_the_one_over_eight() {
        let golden: serde_json::Value = serde_json::from_str(include_str!("../../golden/kalman.json")).unwrap();
        let numbers = |row: &serde_json::Value| -> Vec<f64> {
            row.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
        };
        let place = |row: &serde_json::Value| {
            let row = numbers(row);
            Rectangle { x: row[0], y: row[1], width: row[2], height: row[3] }
        };
        let boxes = golden["boxes"].as_array().unwrap();
        let mut motion = Motion::new(&place(&boxes[0]));
        for (found, wanted) in boxes[1..].iter().zip(golden["places"].as_array().unwrap()) {
            motion.advance();
            // A frame in which it was not seen.
            match found.is_null() {
                true => motion.stop_growing(),
                false => motion.correct(&place(found)),
            }
            let own = motion.place();
            let own = [own.x, own.y, own.width, own.height];
            assert!(own.iter().zip(numbers(wanted)).all(|(a, b)| (a - b).abs() < 1e-9), "{own:?} {wanted}");
        }
    }
}
