//! Rewrites that only help XLA's GPU compiler: the same computation in forms that it fuses and divides better.

mod dilated;
mod functions;
mod pointwise;
mod pooling;
mod products;
mod reductions;
mod scatters;
mod transposed;

pub use dilated::split_dilated;
pub use functions::recompute_functions;
pub use pointwise::convolutions_as_products;
pub use pooling::unpool_by_comparing;
pub use products::small_products_as_sums;
pub use reductions::divide_reductions;
pub use scatters::small_tables_as_sums;
pub use transposed::exchange_dilated;
