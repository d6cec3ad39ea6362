//! Which steps are meant, as people write it: `80<step<=100`, `step>=5`, `7`, `10..20`.

use std::str::FromStr;

/// A range of steps, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepRange {
    /// The first.
    pub first: i64,
    /// The last.
    pub last: i64,
}

impl Default for StepRange {
    fn default() -> StepRange {
        StepRange { first: i64::MIN, last: i64::MAX }
    }
}

impl StepRange {
    /// Whether a step is in it.
    pub fn contains(&self, step: i64) -> bool {
        (self.first..=self.last).contains(&step)
    }

    fn limit(&mut self, relation: &str, number: i64) {
        match relation {
            "<" => self.last = self.last.min(number.saturating_sub(1)),
            "<=" => self.last = self.last.min(number),
            ">" => self.first = self.first.max(number.saturating_add(1)),
            ">=" => self.first = self.first.max(number),
            _ => (self.first, self.last) = (self.first.max(number), self.last.min(number)),
        }
    }
}

/// The relation at the beginning of a text, and what comes before and after it.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let at = text.find(['<', '>', '='])?;
    let length = text[at..].chars().take(2).take_while(|letter| ['<', '>', '='].contains(letter)).count();
    let relation = &text[at..at + length];
    ["<", "<=", ">", ">=", "=", "=="].contains(&relation).then(|| (&text[..at], relation, &text[at + length..]))
}

impl FromStr for StepRange {
    type Err = String;

    fn from_str(text: &str) -> Result<StepRange, String> {
        let problem =
            || format!("{text:?} names no steps; write for example `80<step<=100`, `step>=5`, `10..20` or `7`");
        let plain: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        let number = |text: &str| text.parse::<i64>().map_err(|_| problem());
        let mut range = StepRange::default();
        if let Some((first, last)) = plain.split_once("..") {
            let is_closed = last.starts_with('=');
            if !first.is_empty() {
                range.limit(">=", number(first)?);
            }
            if !last.is_empty() {
                range.limit(if is_closed { "<=" } else { "<" }, number(last.trim_start_matches('='))?);
            }
            return Ok(range);
        }
        let Some((left, relation, right)) = split(&plain) else {
            range.limit("=", number(&plain)?);
            return Ok(range);
        };
        let turned = |relation: &str| match relation {
            "<" => ">",
            "<=" => ">=",
            ">" => "<",
            ">=" => "<=",
            _ => "=",
        };
        let rest = if left == "step" {
            range.limit(relation, number(right)?);
            return Ok(range);
        } else {
            range.limit(turned(relation), number(left)?);
            right
        };
        let rest = rest.strip_prefix("step").ok_or_else(problem)?;
        if !rest.is_empty() {
            let (between, relation, right) = split(rest).ok_or_else(problem)?;
            if !between.is_empty() {
                return Err(problem());
            }
            range.limit(relation, number(right)?);
        }
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_people_write_them() {
        let range = |text: &str| text.parse::<StepRange>().map(|range| (range.first, range.last));
        assert_eq!(range("80<step<=100"), Ok((81, 100)));
        assert_eq!(range("80 < step < 100"), Ok((81, 99)));
        assert_eq!(range("100>=step>80"), Ok((81, 100)));
        assert_eq!(range("step>=5"), Ok((5, i64::MAX)));
        assert_eq!(range("step==7"), Ok((7, 7)));
        assert_eq!(range("7"), Ok((7, 7)));
        assert_eq!(range("10..20"), Ok((10, 19)));
        assert_eq!(range("10..=20"), Ok((10, 20)));
        assert_eq!(range("-3.."), Ok((-3, i64::MAX)));
        for wrong in ["", "step", "80<", "80<epoch<100", "<step", "a..b", "80<step<100<200", "step=>3", "1<2<step"] {
            assert!(range(wrong).is_err(), "{wrong:?} is {:?}", range(wrong));
        }
    }
}
