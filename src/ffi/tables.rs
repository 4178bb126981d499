//! Settings of Kaldi's tables.

use super::error::{koshi_error, koshi_status};
use super::guard;
use crate::table;

/// Allows (not 0) or forbids (0) commands in the names of tables and files, as in
/// "ark:gunzip -c a.gz |", for the whole process. They are forbidden until a program allows them:
/// whoever may choose a name may otherwise run anything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_tables_allow_commands(allow: i32, err: *mut *mut koshi_error) -> koshi_status {
    guard::call(err, || {
        table::set_allow_commands(allow != 0);
        Ok(())
    })
}
