//! Operations on file systems, inodes and writeback.

use super::objects::View;
use crate::cases::{InodeRef, Op};

/// A task opens a file that another one may close.
pub(super) async fn keep(_view: View<'_>, _inode: InodeRef) {}
/// It needs it no longer.
pub(super) async fn unkeep(_view: View<'_>, _inode: InodeRef) {}

/// Performs the operation, if it is one of those here.
pub(super) async fn perform(_view: View<'_>, _op: &Op, _is_immortal: bool) -> Option<i64> {
    None
}
