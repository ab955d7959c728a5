//! What of the machine's own network is reached. In the sandbox with `--network model` or `none` nothing of it is.

use super::table::{Expect, Try, inherent, inside};

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
    inside("loopback-server-of-ip-6", "$P listen-to tcp:[::1]:$BYSTANDER_PORT"),
    inside("loopback-server-by-any-address", "$P listen-to tcp:0.0.0.0:$BYSTANDER_PORT"),
    inside("another-port-beside-the-model", "$P listen-to tcp:127.77.0.2:$BYSTANDER_PORT"),
    inside("addresses-of-a-cloud", "$P reach 169.254.169.254:80; $P reach [fd00:ec2::254]:80"),
    inside("another-machine", "$P reach 192.0.2.1:80; $P reach [2001:db8::1]:80"),
    inside(
        "datagram-to-a-name-server",
        "$P send-datagram 8.8.8.8:53; $P send-datagram [2001:4860:4860::8888]:53",
    ),
    inside("datagram-to-everybody", "$P send-datagram 255.255.255.255:9; $P send-datagram 224.0.0.251:5353"),
    inside("resolved-name", "getent hosts example.com && echo POSSIBLE"),
    // The endpoint of the model is that one place, whatever is asked of it.
    inside(
        "model-as-a-proxy",
        "$P ask tcp:$MODEL \"$(printf 'CONNECT 127.0.0.1:%s HTTP/1.1\\r\\nHost: 127.0.0.1:%s\\r\\n\\r\\n ' $BYSTANDER_PORT $BYSTANDER_PORT)\"",
    ),
    inside(
        "model-as-a-proxy-by-address",
        "$P ask tcp:$MODEL \"$(printf 'GET http://127.0.0.1:%s/ HTTP/1.1\\r\\nHost: 127.0.0.1:%s\\r\\nConnection: close\\r\\n\\r\\n ' $BYSTANDER_PORT $BYSTANDER_PORT)\"",
    ),
    inside(
        "model-as-a-proxy-by-host",
        "$P http tcp:$MODEL GET / 'host: 127.0.0.1:'$BYSTANDER_PORT 'x-forwarded-host: 127.0.0.1:'$BYSTANDER_PORT",
    ),
    inside(
        "model-held-open",
        "$P load connections 300 tcp:$MODEL; $P call $UNIX obey.local.v1.LocalDaemonService/Ping | grep -q 'status OK' || echo POSSIBLE",
    ),
    // What remains must work: the socket of the session itself.
    inherent(
        "own-socket",
        "$P call $UNIX obey.local.v1.LocalDaemonService/Ping | grep -q 'status OK' && echo POSSIBLE",
    )
    .in_sandbox(Expect::Possible),
];
