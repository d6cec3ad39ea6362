//! Whether a process trains together with others.

use super::{Given, Place, refused};
use crate::error::Result;

impl Place {
    /// Where this process belongs; none where it trains alone. `together` is what the user chose, if anything.
    ///
    /// A launcher that started several processes means one run of them, or forgot that they would all do the same. Without a
    /// choice that is refused.
    pub fn chosen(together: Option<bool>, given: &Given) -> Result<Option<Place>> {
        match together {
            Some(false) if !given.is_empty() => refused(
                "--nodes none trains alone, so --node-id, --num-nodes and --coordinator have no effect; remove them",
            ),
            Some(false) => Ok(None),
            Some(true) => Place::of_environment(given).map(Some),
            None if !given.is_empty() => Place::of_environment(given).map(Some),
            None => match Place::of_environment(&Given::default()) {
                Ok(place) => refuse_forgotten(&place).map(|()| None),
                Err(_) => Ok(None),
            },
        }
    }
}

fn refuse_forgotten(place: &Place) -> Result<()> {
    let Place { rank, ranks, launcher, .. } = place;
    match ranks {
        0 | 1 => Ok(()),
        _ => refused(format!(
            "this is rank {rank} of {ranks} that {launcher} started: give --nodes auto to train together, or --nodes none to \
             train alone"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Variables;

    #[test]
    fn processes_that_a_launcher_started_were_several_runs_of_the_same() {
        let variables = [("RANK", "1"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "head"), ("MASTER_PORT", "29500")];
        let variables: Variables = variables.map(|(name, value)| (name.to_string(), value.to_string())).into();
        let place = Place::find(&Given::default(), &variables).unwrap();
        let error = refuse_forgotten(&place).unwrap_err().to_string();
        assert!(error.contains("rank 1 of 4 that torchrun started: give --nodes auto"), "{error}");
        assert!(refuse_forgotten(&Place { rank: 0, ranks: 1, ..place }).is_ok());
    }

    #[test]
    fn alone_is_alone() {
        let given = Given { node_id: Some(1), ..Given::default() };
        assert_eq!(Place::chosen(Some(false), &Given::default()).unwrap(), None);
        assert!(Place::chosen(Some(false), &given).unwrap_err().to_string().contains("have no effect"));
    }
}
