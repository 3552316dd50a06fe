//! Exhaustive searches.
//!
//! All are depth first and stateless: a future cannot be copied, so each execution replays a prefix of decisions and then
//! makes new ones. [`Dfs`] enumerates schedules and is what the others are tested against; [`Dpor`] tries one schedule a
//! trace; [`States`] cuts at states seen before. Choices that are not scheduling branch fully, within `Config::max_faults`.
//! With a cache, [`Dpor`] lets one of [`equal`](wbmodel::sync::equal) tasks go first: what it leaves out differs in names alone.

mod dfs;
mod dpor;
mod states;
mod summary;
mod tree;

pub use dfs::Dfs;
pub use dpor::Dpor;
pub use states::States;
