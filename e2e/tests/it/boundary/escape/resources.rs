//! Taking too much. Amounts are small enough for the machine to survive; what is held is that the daemon answers and that
//! other sessions live.

use super::table::{Try, impossible};

pub(super) const ATTEMPTS: &[Try] = &[
    impossible("many-processes", "$P load processes 300"),
    impossible("much-memory", "$P load memory 256"),
    impossible("much-disk", "$P load disk 64 $PROJECT/filler"),
    impossible("many-connections", "$P load connections 400 $UNIX"),
    impossible("many-tcp-connections", "$P load connections 400 $TCP"),
    impossible("many-requests", "$P load requests 400 $UNIX"),
    impossible("many-tcp-requests", "$P load requests 400 $TCP"),
    impossible("much-output", "head -c 8000000 /dev/zero | tr '\\0' x"),
    // The last: a line that never ends costs the session that says it.
    impossible("endless-line", "$P load line 48 /proc/$PPID/fd/1"),
];
