//! Affine index maps: the element of a value as a linear form over the loop's dimensions.
//!
//! Movement operations (transpose, slice, reverse, broadcast, reshape) never copy while they stay inside a loop: they
//! only change the forms with which the values below them are read.

/// An index as `offset + Σ factors[d] · i[d]` over the dimensions of a loop.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub offset: isize,
    pub factors: Vec<isize>,
}

impl Form {
    pub fn zero(rank: usize) -> Form {
        Form { offset: 0, factors: vec![0; rank] }
    }

    pub fn scaled(&self, factor: isize) -> Form {
        Form { offset: self.offset * factor, factors: self.factors.iter().map(|f| f * factor).collect() }
    }

    pub fn shifted(mut self, by: isize) -> Form {
        self.offset += by;
        self
    }

    pub fn plus(mut self, other: &Form) -> Form {
        self.offset += other.offset;
        self.factors.iter_mut().zip(&other.factors).for_each(|(mine, theirs)| *mine += theirs);
        self
    }
}

/// Why a value cannot be read through a reshape in the loop as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It can once this loop dimension is two: the inner one of this length.
    Split { dimension: usize, inner: usize },
    /// It must be stored first.
    Opaque,
}

/// The dimensions of a loop: those of a value, each possibly split so that reshapes can be seen through.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    /// For every axis of the value the lengths it is split into, outermost first.
    splits: Vec<Vec<usize>>,
}

impl Space {
    pub fn over(dims: &[usize]) -> Space {
        Space { splits: dims.iter().map(|&dim| vec![dim]).collect() }
    }

    pub fn dims(&self) -> Vec<usize> {
        self.splits.concat()
    }

    /// Splits a loop dimension into two, the inner one of length `inner`.
    pub fn split(&mut self, dimension: usize, inner: usize) {
        let mut left = dimension;
        for lengths in &mut self.splits {
            if left < lengths.len() {
                lengths[left] /= inner;
                lengths.insert(left + 1, inner);
                return;
            }
            left -= lengths.len();
        }
    }

    /// The index along every axis of the value that the space was made over.
    pub fn identity(&self) -> Vec<Form> {
        let rank = self.splits.iter().map(Vec::len).sum();
        let mut first = 0;
        let axis_form = |lengths: &Vec<usize>| {
            let mut form = Form::zero(rank);
            let mut factor = 1;
            for (dim, length) in lengths.iter().enumerate().rev() {
                form.factors[first + dim] = factor;
                factor *= *length as isize;
            }
            first += lengths.len();
            form
        };
        self.splits.iter().map(axis_form).collect()
    }
}

/// The single form of a row-major position from the forms along the axes.
pub(crate) fn linear(forms: &[Form], dims: &[usize], rank: usize) -> Form {
    let mut stride = 1;
    let mut position = Form::zero(rank);
    for (form, &dim) in forms.iter().zip(dims).rev() {
        position = position.plus(&form.scaled(stride));
        stride *= dim as isize;
    }
    position
}

/// The forms along the axes of `from` when those of its reshape to `to` are `forms`.
pub(crate) fn through_reshape(
    forms: &[Form],
    to: &[usize],
    from: &[usize],
    space: &[usize],
) -> Result<Vec<Form>, Obstacle> {
    let mut result = Vec::with_capacity(from.len());
    for (to_range, from_range) in matching_groups(to, from) {
        let position = linear(&forms[to_range.clone()], &to[to_range], space.len());
        result.extend(divide(&position, &from[from_range], space)?);
    }
    Ok(result)
}

/// Cuts two lists of dimensions into the shortest runs of equal products.
fn matching_groups(to: &[usize], from: &[usize]) -> Vec<(std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut groups = Vec::new();
    let (mut t, mut f) = (0, 0);
    while t < to.len() || f < from.len() {
        let (first_t, first_f) = (t, f);
        let (mut product_t, mut product_f) = (1, 1);
        loop {
            if product_t <= product_f && t < to.len() {
                product_t *= to[t];
                t += 1;
            } else if f < from.len() {
                product_f *= from[f];
                f += 1;
            } else if t < to.len() {
                product_t *= to[t];
                t += 1;
            }
            let exhausted = t == to.len() && f == from.len();
            if exhausted || (product_t == product_f && product_t != 1) {
                break;
            }
        }
        groups.push((first_t..t, first_f..f));
    }
    groups
}

/// The indices along `dims` of a row-major position.
fn divide(position: &Form, dims: &[usize], space: &[usize]) -> Result<Vec<Form>, Obstacle> {
    let long = dims.iter().filter(|&&dim| dim != 1).count();
    if long <= 1 {
        return Ok(dims.iter().map(|&dim| if dim == 1 { Form::zero(space.len()) } else { position.clone() }).collect());
    }
    // The position must be a mixed-radix number over loop dimensions; then every axis takes some of its digits.
    let mut digits: Vec<usize> = (0..space.len()).filter(|&d| position.factors[d] != 0 && space[d] != 1).collect();
    digits.sort_by_key(|&d| position.factors[d]);
    let mut weight = 1;
    for &digit in &digits {
        if position.factors[digit] != weight {
            return Err(Obstacle::Opaque);
        }
        weight *= space[digit] as isize;
    }
    if position.offset != 0 || weight as usize != dims.iter().product::<usize>() {
        return Err(Obstacle::Opaque);
    }
    let mut digits = digits.into_iter();
    let mut forms = vec![Form::zero(space.len()); dims.len()];
    for (axis, &dim) in dims.iter().enumerate().rev() {
        let mut taken = 1;
        while taken < dim {
            let digit = digits.next().ok_or(Obstacle::Opaque)?;
            if !dim.is_multiple_of(taken * space[digit]) {
                let inner = dim / taken;
                let splits = dim.is_multiple_of(taken) && inner > 1 && space[digit].is_multiple_of(inner);
                return Err(if splits { Obstacle::Split { dimension: digit, inner } } else { Obstacle::Opaque });
            }
            forms[axis].factors[digit] = taken as isize;
            taken *= space[digit];
        }
    }
    Ok(forms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_axes_adds_their_forms() {
        let space = Space::over(&[4, 3, 5]);
        let forms = through_reshape(&space.identity(), &[4, 3, 5], &[12, 5], &space.dims()).unwrap();
        assert_eq!(forms[0].factors, [3, 1, 0]);
        assert_eq!(forms[1].factors, [0, 0, 1]);
    }

    #[test]
    fn splitting_an_axis_needs_a_finer_loop() {
        let mut space = Space::over(&[12, 5]);
        let obstacle = through_reshape(&space.identity(), &[12, 5], &[4, 3, 5], &space.dims()).unwrap_err();
        assert_eq!(obstacle, Obstacle::Split { dimension: 0, inner: 3 });
        space.split(0, 3);
        let forms = through_reshape(&space.identity(), &[12, 5], &[4, 3, 5], &space.dims()).unwrap();
        assert_eq!(
            forms.iter().map(|form| form.factors.clone()).collect::<Vec<_>>(),
            [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        );
    }

    #[test]
    fn a_reversed_axis_cannot_be_split() {
        let space = Space::over(&[12]);
        let reversed = vec![Form { offset: 11, factors: vec![-1] }];
        assert_eq!(through_reshape(&reversed, &[12], &[4, 3], &space.dims()), Err(Obstacle::Opaque));
    }

    #[test]
    fn axes_of_length_one_come_and_go() {
        let space = Space::over(&[1, 6, 1]);
        let forms = through_reshape(&space.identity(), &[1, 6, 1], &[6], &space.dims()).unwrap();
        // Whatever an axis of length 1 is multiplied by, its index is 0.
        assert_eq!(forms[0].factors[1], 1);
    }
}
