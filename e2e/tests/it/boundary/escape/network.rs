//! What of the machine's own network is reached. In the sandbox with `--network model` or `none` nothing of it is.

use super::table::{Expect, Try, inherent};

pub(super) const ATTEMPTS: &[Try] = &[
    inherent("loopback-server", "$P listen-to tcp:127.0.0.1:$BYSTANDER_PORT"),
    inherent("loopback-server-mapped", "$P listen-to tcp:[::ffff:127.0.0.1]:$BYSTANDER_PORT"),
    inherent("abstract-server", "$P listen-to abstract:bystander-$BYSTANDER_PORT"),
    inherent(
        "daemon-over-tcp",
        "$P call $TCP obey.local.v1.LocalDaemonService/Ping | grep -q 'status OK' && echo POSSIBLE",
    ),
    inherent("model-server", "$P http tcp:$MODEL GET / | grep -q HTTP/1.1 && echo POSSIBLE")
        .in_sandbox(Expect::Depends("whether the network is `model`, whose endpoint it is, or `none`")),
    // What remains must work: the socket of the session itself.
    inherent(
        "own-socket",
        "$P call $UNIX obey.local.v1.LocalDaemonService/Ping | grep -q 'status OK' && echo POSSIBLE",
    )
    .in_sandbox(Expect::Possible),
];
