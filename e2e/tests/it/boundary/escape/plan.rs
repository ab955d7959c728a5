//! Plan mode: nothing is changed, whichever way the agent takes to the workbench. A change that came about is found as a
//! file in the project that is named like the attempt.

use super::table::{Try, impossible};

pub(super) const ATTEMPTS: &[Try] = &[
    impossible(
        "plan-rest-write",
        "$P http $UNIX POST /api/v1/safeexec/write '{\"session_id\":\"'$OWN'\",\"path\":\"plan-rest-write\",\"content\":\"x\"}'",
    ),
    impossible(
        "plan-rest-bash",
        "$P http $UNIX POST /api/v1/safeexec/bash '{\"session_id\":\"'$OWN'\",\"cmd\":\"touch plan-rest-bash\"}'",
    ),
    impossible(
        "plan-tcp-write",
        "$P http $TCP POST /api/v1/safeexec/write '{\"session_id\":\"'$OWN'\",\"path\":\"plan-tcp-write\",\"content\":\"x\"}'",
    ),
    impossible(
        "plan-grpc-write",
        "$P call $UNIX contextd.v1.SafeExecService/Write session_id=$OWN path=plan-grpc-write content=x",
    ),
    impossible(
        "plan-grpc-bash",
        "$P call $UNIX contextd.v1.SafeExecService/Bash session_id=$OWN 'cmd=touch plan-grpc-bash'",
    ),
    impossible("plan-command-line", "$D exec --sandbox --session $OWN -- touch plan-command-line"),
    impossible(
        "plan-bridge",
        "printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}' '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}' '{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"safe_write\",\"arguments\":{\"path\":\"plan-bridge\",\"content\":\"x\"}}}' | timeout 5 $D mcp --session $OWN",
    ),
    impossible(
        "plan-mcp-over-http",
        "$P http $UNIX POST /mcp '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"safe_write\",\"arguments\":{\"path\":\"plan-mcp-over-http\",\"content\":\"x\"}}}' 'accept: application/json, text/event-stream'",
    ),
];
