//! Run directories, as the commands look at them.

pub(crate) use octant_recipe::{Opened, choose, config, open};
