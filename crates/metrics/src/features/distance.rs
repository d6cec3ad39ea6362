//! The distance between two sets of images by their features: the Fréchet distance (Heusel et al., "GANs Trained by a Two
//! Time-Scale Update Rule", 2017) and the kernel distance (Bińkowski et al., "Demystifying MMD GANs", 2018).

use nalgebra::{DMatrix, DVector};
use std::collections::BTreeMap;

/// Rows whose products are summed at once.
const BLOCK: usize = 256;
/// Rows that the kernel distance compares with each other.
const SUBSET: usize = 1000;
/// The most rows that are kept for the kernel distance, which has no short form as mean and covariance are.
const KEPT: usize = 10 * SUBSET;

/// Features of a set of images as they come: their mean and covariance, and a random part of them, since folders are sorted by
/// class.
#[derive(Debug, Clone)]
pub struct FeatureSet {
    width: usize,
    rows: usize,
    /// Of all blocks that are full.
    sum: DVector<f64>,
    products: DMatrix<f64>,
    block: Vec<f64>,
    /// Rows by [`rank`], which must have so many trailing zeros.
    kept: BTreeMap<u64, Vec<f32>>,
    zeros: u32,
}

impl FeatureSet {
    /// An empty set of features with so many numbers each.
    pub fn new(width: usize) -> FeatureSet {
        let (sum, products) = (DVector::zeros(width), DMatrix::zeros(width, width));
        FeatureSet { width, rows: 0, sum, products, block: Vec::new(), kept: BTreeMap::new(), zeros: 0 }
    }

    /// How many rows there were.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Numbers per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Adds rows, one after another in a slice.
    pub fn observe(&mut self, rows: &[f32]) {
        for row in rows.chunks_exact(self.width.max(1)) {
            self.keep(row);
            self.rows += 1;
            self.block.extend(row.iter().map(|&value| f64::from(value)));
            if self.block.len() == BLOCK * self.width {
                (self.sum, self.products) = self.sums();
                self.block.clear();
            }
        }
    }

    /// Keeps a row, or about half of all where they have become too many.
    fn keep(&mut self, row: &[f32]) {
        let rank = rank(self.rows as u64);
        if rank.trailing_zeros() >= self.zeros {
            self.kept.insert(rank, row.to_vec());
        }
        if self.kept.len() > KEPT {
            self.zeros += 1;
            self.kept.retain(|rank, _| rank.trailing_zeros() >= self.zeros);
        }
    }

    /// One of so many parts of the rows that are kept; a row is a column.
    fn part(&self, number: usize, parts: usize) -> DMatrix<f64> {
        let (from, to) = (number * self.kept.len() / parts, (number + 1) * self.kept.len() / parts);
        let rows = self.kept.values().skip(from).take(to - from);
        DMatrix::from_iterator(self.width, to - from, rows.flatten().copied().map(f64::from))
    }

    /// Sums with the rows that wait for their block to be full.
    fn sums(&self) -> (DVector<f64>, DMatrix<f64>) {
        let block = DMatrix::from_column_slice(self.width, self.block.len() / self.width.max(1), &self.block);
        let mut products = self.products.clone();
        products.gemm(1.0, &block, &block.transpose(), 1.0);
        (&self.sum + block.column_sum(), products)
    }

    /// Mean and covariance (divided by one less than the rows).
    fn moments(&self) -> (DVector<f64>, DMatrix<f64>) {
        let (sum, products) = self.sums();
        let rows = self.rows as f64;
        let mean = sum / rows;
        let covariance = (products - &mean * mean.transpose() * rows) / (rows - 1.0).max(1.0);
        (mean, covariance)
    }
}

/// A number that orders rows at random, the same for all sets: the finalizer of SplitMix64, which is a bijection.
fn rank(row: u64) -> u64 {
    let mixed = row.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The Fréchet distance between the normal distributions that two sets of features suggest; FID where the features are
/// InceptionV3's.
pub fn frechet_distance(a: &FeatureSet, b: &FeatureSet) -> f64 {
    let ((mean_a, covariance_a), (mean_b, covariance_b)) = (a.moments(), b.moments());
    let traces = covariance_a.trace() + covariance_b.trace();
    // The eigenvalues of A·B are those of Lᵀ·B·L with L·Lᵀ = A, which is symmetric.
    let factor = factor(covariance_a);
    let similar = factor.transpose() * covariance_b * &factor;
    let roots: f64 = similar.symmetric_eigenvalues().iter().map(|value| value.max(0.0).sqrt()).sum();
    // Equal sets differ by rounding alone, which may be below zero.
    ((mean_a - mean_b).norm_squared() + traces - 2.0 * roots).max(0.0)
}

/// `L` with `L·Lᵀ` equal to a matrix without negative eigenvalues, by Cholesky's method with the largest pivot first; as
/// many columns as its rank.
fn factor(mut rest: DMatrix<f64>) -> DMatrix<f64> {
    let side = rest.nrows();
    let smallest = rest.diagonal().max() * side as f64 * f64::EPSILON;
    let mut columns = Vec::new();
    for _ in 0..side {
        let pivot = rest.diagonal().imax();
        if rest[(pivot, pivot)] <= smallest {
            break;
        }
        let column = rest.column(pivot) / rest[(pivot, pivot)].sqrt();
        rest.ger(-1.0, &column, &column, 1.0);
        columns.push(column);
    }
    if columns.is_empty() { DMatrix::zeros(side, 1) } else { DMatrix::from_columns(&columns) }
}

/// The squared maximum mean discrepancy by the cubic kernel `(x·y / width + 1)³`, without bias: of all rows of both sets, or, where
/// there are many, the mean over subsets of about a thousand rows.
pub fn kernel_distance(a: &FeatureSet, b: &FeatureSet) -> f64 {
    let (fewest, most) = (a.kept.len().min(b.kept.len()), a.kept.len().max(b.kept.len()));
    if fewest < 2 {
        return f64::NAN;
    }
    let parts = most.div_ceil(SUBSET);
    // A small set is compared as a whole with every part of a large one.
    let part =
        |set: &FeatureSet, number| if set.kept.len() <= SUBSET { set.part(0, 1) } else { set.part(number, parts) };
    let distances = (0..parts).map(|number| discrepancy(&part(a, number), &part(b, number)));
    distances.sum::<f64>() / parts as f64
}

fn discrepancy(a: &DMatrix<f64>, b: &DMatrix<f64>) -> f64 {
    let width = a.nrows() as f64;
    let kernel =
        |a: &DMatrix<f64>, b: &DMatrix<f64>| (a.transpose() * b).map(|product| (product / width + 1.0).powi(3));
    let among = |set: &DMatrix<f64>| {
        let (kernel, size) = (kernel(set, set), set.ncols() as f64);
        (kernel.sum() - kernel.trace()) / (size * (size - 1.0))
    };
    among(a) + among(b) - 2.0 * kernel(a, b).mean()
}
