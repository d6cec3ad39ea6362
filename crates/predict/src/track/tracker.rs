//! ByteTrack (Zhang et al., 2022): boxes of one frame after the other become tracks.

use super::kalman::Motion;
use octant_graph::assignment::assign;
use octant_metrics::boxes::{PredictedBox, Rectangle};

/// How boxes become tracks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrackOptions {
    /// Boxes with a higher score are matched first.
    pub high: f64,
    /// Those between this and `high` only continue tracks that found none of the first.
    pub low: f64,
    /// The score from which on an unmatched box begins a track.
    pub new: f64,
    /// The largest distance of a box from its track in the first round: 1 − overlap · score.
    pub distance: f64,
    /// Frames for which a track that is not seen is kept.
    pub buffer: u64,
}

impl Default for TrackOptions {
    fn default() -> TrackOptions {
        TrackOptions { high: 0.5, low: 0.1, new: 0.6, distance: 0.8, buffer: 30 }
    }
}

/// A box of a frame with the number of its track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrackedBox {
    /// The number of the track, from 1 on.
    pub track: u64,
    /// The number of the class.
    pub class: usize,
    /// Where it is, as the track's motion has it.
    pub rectangle: Rectangle,
    /// The score of the box that continued it.
    pub score: f64,
}

/// The largest distance in the second round, and for tracks of a single frame.
const SECOND_DISTANCE: f64 = 0.5;
const YOUNG_DISTANCE: f64 = 0.7;
/// Of two tracks that are nearer than this, the shorter one is a repetition.
const SAME_DISTANCE: f64 = 0.15;

#[derive(Debug, Clone)]
struct Track {
    number: u64,
    class: usize,
    motion: Motion,
    score: f64,
    /// It was seen in a second frame, or in the first of all.
    is_confirmed: bool,
    first: u64,
    last: u64,
}

/// Tracks over the frames so far.
#[derive(Debug, Clone)]
pub struct Tracker {
    options: TrackOptions,
    frame: u64,
    /// Seen in the last frame.
    tracked: Vec<Track>,
    /// Not seen for a while.
    lost: Vec<Track>,
    numbers: u64,
}

impl Tracker {
    /// No frame seen yet.
    pub fn new(options: TrackOptions) -> Tracker {
        Tracker { options, frame: 0, tracked: Vec::new(), lost: Vec::new(), numbers: 0 }
    }

    /// The boxes of the next frame; returns those of them that belong to tracks, by the number of the track.
    pub fn update(&mut self, found: &[PredictedBox]) -> Vec<TrackedBox> {
        self.frame += 1;
        let TrackOptions { high, low, new, distance, buffer } = self.options;
        let (strong, weak): (Vec<&PredictedBox>, Vec<&PredictedBox>) =
            found.iter().filter(|found| found.score > low).partition(|found| found.score > high);
        let (mut pool, mut young): (Vec<Track>, Vec<Track>) =
            self.tracked.drain(..).partition(|track| track.is_confirmed);
        let seen = pool.len();
        pool.append(&mut self.lost);
        // Those that were not seen in the frame before no longer grow.
        pool[seen..].iter_mut().for_each(|track| track.motion.stop_growing());
        pool.iter_mut().for_each(|track| track.motion.advance());

        let mut is_free = vec![true; strong.len()];
        let mut is_seen = vec![false; pool.len()];
        for (track, found) in matches(&pool.iter().collect::<Vec<_>>(), &strong, distance, true) {
            pool[track].see(strong[found], self.frame);
            (is_seen[track], is_free[found]) = (true, false);
        }
        // Boxes that are hard to see continue tracks of the frame before.
        let left: Vec<usize> = (0..seen).filter(|&track| !is_seen[track]).collect();
        let of_left: Vec<&Track> = left.iter().map(|&track| &pool[track]).collect();
        for (at, found) in matches(&of_left, &weak, SECOND_DISTANCE, false) {
            pool[left[at]].see(weak[found], self.frame);
            is_seen[left[at]] = true;
        }
        // A track of a single frame is dropped when nothing continues it.
        let free: Vec<usize> = (0..strong.len()).filter(|&found| is_free[found]).collect();
        let of_free: Vec<&PredictedBox> = free.iter().map(|&found| strong[found]).collect();
        let continued = matches(&young.iter().collect::<Vec<_>>(), &of_free, YOUNG_DISTANCE, true);
        let mut is_continued = vec![false; young.len()];
        for (track, at) in continued {
            young[track].see(of_free[at], self.frame);
            (is_continued[track], is_free[free[at]]) = (true, false);
        }
        let begun = strong.iter().zip(&is_free).filter(|(found, is_free)| **is_free && found.score >= new);
        for (found, _) in begun {
            self.numbers += 1;
            self.tracked.push(Track {
                number: self.numbers,
                class: found.class,
                motion: Motion::new(&found.rectangle),
                score: found.score,
                is_confirmed: self.frame == 1,
                first: self.frame,
                last: self.frame,
            });
        }
        self.tracked
            .extend(young.into_iter().zip(is_continued).filter(|(_, continued)| *continued).map(|(track, _)| track));
        for (track, is_seen) in pool.into_iter().zip(is_seen) {
            match is_seen {
                true => self.tracked.push(track),
                false if self.frame - track.last <= buffer => self.lost.push(track),
                false => {}
            }
        }
        self.drop_repetitions();
        self.tracked.sort_by_key(|track| track.number);
        let confirmed = self.tracked.iter().filter(|track| track.is_confirmed);
        confirmed.map(Track::shown).collect()
    }

    /// Of a tracked and a lost track that overlap, the one that was followed for longer stays.
    fn drop_repetitions(&mut self) {
        let (mut of_tracked, mut of_lost) = (vec![true; self.tracked.len()], vec![true; self.lost.len()]);
        for (a, tracked) in self.tracked.iter().enumerate() {
            for (b, lost) in self.lost.iter().enumerate() {
                let distance = 1.0 - tracked.motion.place().iou(&lost.motion.place());
                if tracked.class == lost.class && distance < SAME_DISTANCE {
                    let is_longer = tracked.last - tracked.first > lost.last - lost.first;
                    let stays = if is_longer { &mut of_lost[b] } else { &mut of_tracked[a] };
                    *stays = false;
                }
            }
        }
        let (mut a, mut b) = (of_tracked.into_iter(), of_lost.into_iter());
        self.tracked.retain(|_| a.next().unwrap_or(true));
        self.lost.retain(|_| b.next().unwrap_or(true));
    }
}

impl Track {
    fn see(&mut self, found: &PredictedBox, frame: u64) {
        self.motion.correct(&found.rectangle);
        (self.score, self.last, self.is_confirmed) = (found.score, frame, true);
    }

    fn shown(&self) -> TrackedBox {
        let Track { number, class, score, .. } = *self;
        TrackedBox { track: number, class, rectangle: self.motion.place(), score }
    }
}

/// The pairs of tracks and boxes of one class with the lowest total distance, none of them farther than `limit`. Distances are 1 −
/// overlap, of which with `by_score` the box's score is a factor.
fn matches(tracks: &[&Track], found: &[&PredictedBox], limit: f64, by_score: bool) -> Vec<(usize, usize)> {
    // A pair that is farther than the limit is worth as much as none.
    let cost = |track: &Track, found: &PredictedBox| {
        let overlap = track.motion.place().iou(&found.rectangle);
        let distance = 1.0 - if by_score { overlap * found.score } else { overlap };
        if track.class == found.class { (distance - limit).min(0.0) } else { 0.0 }
    };
    let costs: Vec<f64> = tracks.iter().flat_map(|track| found.iter().map(|found| cost(track, found))).collect();
    let pairs = assign(&costs, found.len()).into_iter().enumerate();
    let pairs = pairs.filter_map(|(track, found)| Some((track, found?)));
    pairs.filter(|(track, at)| costs[track * found.len() + at] < 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f64, y: f64, score: f64, class: usize) -> PredictedBox {
        PredictedBox { class, rectangle: Rectangle { x, y, width: 20.0, height: 40.0 }, score }
    }

    fn numbers(found: &[TrackedBox]) -> Vec<u64> {
        found.iter().map(|found| found.track).collect()
    }

    #[test]
    fn two_that_cross_keep_their_numbers() {
        let mut tracker = Tracker::new(TrackOptions::default());
        for frame in 0..40 {
            let x = 4.0 * f64::from(frame);
            let found = tracker.update(&[at(x, 100.0, 0.9, 0), at(160.0 - x, 112.0, 0.9, 0)]);
            assert_eq!(numbers(&found), [1, 2], "frame {frame}");
            assert!((found[0].rectangle.x - x).abs() < 10.0 && (found[1].rectangle.x - 160.0 + x).abs() < 10.0);
        }
    }

    #[test]
    fn a_box_that_is_hard_to_see_continues_its_track_and_begins_none() {
        let mut tracker = Tracker::new(TrackOptions::default());
        assert_eq!(numbers(&tracker.update(&[at(0.0, 0.0, 0.9, 0), at(200.0, 0.0, 0.3, 0)])), [1]);
        assert_eq!(numbers(&tracker.update(&[at(1.0, 0.0, 0.2, 0), at(200.0, 0.0, 0.3, 0)])), [1]);
        assert_eq!(numbers(&tracker.update(&[at(2.0, 0.0, 0.05, 0)])), [] as [u64; 0]);
    }

    #[test]
    fn a_track_is_found_again_within_the_buffer_and_forgotten_after_it() {
        for (missing, wanted) in [(5, 1), (12, 2)] {
            let mut tracker = Tracker::new(TrackOptions { buffer: 10, ..TrackOptions::default() });
            (0..3).for_each(|_| drop(tracker.update(&[at(50.0, 50.0, 0.9, 0)])));
            (0..missing).for_each(|_| assert!(tracker.update(&[]).is_empty()));
            // A new track is shown from its second frame on.
            tracker.update(&[at(50.0, 50.0, 0.9, 0)]);
            assert_eq!(numbers(&tracker.update(&[at(50.0, 50.0, 0.9, 0)])), [wanted], "{missing} frames");
        }
    }

    #[test]
    fn a_single_frame_is_no_track_and_classes_are_not_mixed() {
        let mut tracker = Tracker::new(TrackOptions::default());
        tracker.update(&[at(0.0, 0.0, 0.9, 0)]);
        assert_eq!(numbers(&tracker.update(&[at(0.0, 0.0, 0.9, 0), at(300.0, 0.0, 0.9, 0)])), [1]);
        assert_eq!(numbers(&tracker.update(&[at(0.0, 0.0, 0.9, 1)])), [] as [u64; 0], "of another class");
        assert_eq!(numbers(&tracker.update(&[at(0.0, 0.0, 0.9, 0), at(0.0, 0.0, 0.9, 1)])), [1, 3]);
    }
}
