//! Errors, each a sentence that says what to do.

use crate::exit::ExitCode;
use crate::store::StoreError;
use std::time::Duration;

/// Result of everything that needs the other processes.
pub type Result<T> = std::result::Result<T, ClusterError>;

/// Why processes do not form a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The environment does not say which of how many processes this one is.
    #[error("{0}")]
    Place(String),
    /// Some processes did not come in time.
    #[error("{what}: {} did not come within {} s: check that they were started and what their logs end with", ranks(.missing), .waited.as_secs_f64().round())]
    Missing {
        /// What was waited for.
        what: String,
        /// Who did not come.
        missing: Vec<usize>,
        /// How long was waited.
        waited: Duration,
    },
    /// The processes were not started alike.
    #[error("{0}")]
    Disagreement(String),
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl ClusterError {
    /// The exit code of a process that ends because of it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            ClusterError::Place(_) | ClusterError::Disagreement(_) => ExitCode::NotAlike,
            ClusterError::Missing { .. } | ClusterError::Store(_) => ExitCode::PeerLost,
        }
    }
}

/// `rank 3`, `ranks 1, 4 and 5`, `ranks 1, 2, 3, 4 and 96 more`.
pub(crate) fn ranks(ranks: &[usize]) -> String {
    const SHOWN: usize = 8;
    let names: Vec<String> = ranks.iter().take(SHOWN).map(usize::to_string).collect();
    match (&names[..], ranks.len()) {
        ([], _) => "no rank".into(),
        ([one], _) => format!("rank {one}"),
        (_, all) if all > SHOWN => format!("ranks {} and {} more", names.join(", "), all - SHOWN),
        ([first @ .., last], _) => format!("ranks {} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_listed_until_there_are_too_many() {
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[1, 4, 5]), "ranks 1, 4 and 5");
        assert_eq!(ranks(&(0..100).collect::<Vec<_>>()), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 92 more");
    }
}
