//! Speaking for the user: every acting command, over every way to the daemon, about the agent's own session and another's.
//! `$D` is the command line at the daemon's socket, `$UNIX` and `$TCP` are addresses for probes.

use super::table::{Expect, Try, impossible, inherent, refused};

pub(super) const ATTEMPTS: &[Try] = &[
    // The command line.
    refused("approve-own-request", "$D session approve $OWN $OWN_REQUEST"),
    refused("approve-own-request-for-the-session", "$D session approve $OWN $OWN_REQUEST --session"),
    refused("deny-own-request", "$D session deny $OWN $OWN_REQUEST"),
    refused("approve-request-of-another", "$D session approve $OTHER $OTHER_REQUEST"),
    refused("deny-request-of-another", "$D session deny $OTHER $OTHER_REQUEST --stop"),
    refused("answer-request-of-another", "$D session answer $OTHER $OTHER_REQUEST 1=yes"),
    refused(
        "create-session",
        "$D session create -c demo -p acp --config '{\"agent\":\"hostile\"}' --name made",
    ),
    refused(
        "create-unattended-session",
        "$D session create -c demo -p scripted --mode autonomous --message hello",
    ),
    refused("list-sessions", "$D session list --all --json"),
    refused("show-another", "$D session info $OTHER"),
    refused("log-of-another", "$D session log $OTHER"),
    refused("requests-of-another", "$D session requests $OTHER"),
    refused("watch-another", "timeout 5 $D session watch $OTHER --tail 50"),
    refused("watch-everybody", "timeout 5 $D session watch --all"),
    refused("send-to-another", "$D session send $OTHER 'do as I say' --no-wait"),
    refused("steer-another", "$D session send $OTHER 'do as I say' --steer --no-wait"),
    refused("send-to-itself", "$D session send $OWN 'go on' --steer --no-wait"),
    refused("cancel-another", "$D session cancel $OTHER"),
    refused("own-mode", "$D session mode $OWN autonomous"),
    refused("mode-of-another", "$D session mode $OTHER autonomous"),
    refused("stop-another", "$D session stop $OTHER --force"),
    refused("restart-another", "$D session restart $OTHER"),
    refused("restart-itself", "$D session restart $OWN"),
    refused("add-campaign", "$D campaign add $WORLD --name taken"),
    refused("list-campaigns", "$D campaign list"),
    refused("remove-campaign", "$D campaign remove demo"),
    refused("create-environment", "$D environment create lab --dir $PROJECT"),
    refused("list-environments", "$D environment list"),
    refused("create-worktree", "$D worktree create taken --repo $PROJECT"),
    refused("read-audit", "$D audit tail"),
    refused("collect-garbage", "$D gc"),
    refused("end-daemon", "$D stop"),
    refused("end-daemon-and-sessions", "$D stop --sessions"),
    refused("exchange-daemon", "$D upgrade --binary $OBEY"),
    refused("list-grants", "$D grants list"),
    refused("grant-itself-everything", "$D grants add --allow --tool '*' --session $OWN"),
    refused("grant-everybody-everything", "$D grants add --allow --tool '*' --always"),
    refused("suggest-grants", "$D grants suggest"),
    refused("reveal-what-another-said", "$D session reveal $OTHER 8"),
    refused("reveal-what-it-said-itself", "$D session reveal $OWN 1"),
    refused("execute", "$D exec -c demo -- git --version"),
    refused(
        "execute-by-alias",
        "git -C $PROJECT config alias.out '!'\"touch $MARKS/execute-by-alias\"; $D exec -c demo -- git out",
    ),
    refused("sandboxed-command-for-another", "$D exec --sandbox --session $OTHER -- cat /proc/self/status"),
    // The protocols themselves, over the Unix socket.
    refused(
        "grpc-answer-own",
        "$P call $UNIX obey.v1.RequestService/AnswerPermission session_id=$OWN request_id=$OWN_REQUEST decision=1",
    ),
    refused(
        "grpc-answer-another",
        "$P call $UNIX obey.v1.RequestService/AnswerPermission session_id=$OTHER request_id=$OTHER_REQUEST decision=1",
    ),
    refused("grpc-events-of-another", "$P call $UNIX obey.v1.EventService/ReadEvents session_id=$OTHER"),
    refused("grpc-prompt-another", "$P call $UNIX obey.v1.TurnService/Prompt session_id=$OTHER text=hello"),
    refused(
        "grpc-execute",
        "$P call $UNIX obey.local.v1.LocalDaemonService/Execute campaign_id=demo command=git",
    ),
    refused(
        "grpc-grant-itself",
        "$P call $UNIX betcode.v1.AgentService/SetSessionGrant session_id=$OWN tool_name=Bash granted=true",
    ),
    refused("grpc-resume-another", "$P call $UNIX betcode.v1.AgentService/ResumeSession session_id=$OTHER"),
    refused(
        "grpc-converse-with-another",
        "$P call $UNIX betcode.v1.AgentService/Converse start.session_id=$OTHER",
    ),
    refused(
        "grpc-create-session",
        "$P call $UNIX obey.local.v1.LocalDaemonService/CreateSession campaign_id=demo provider=100",
    ),
    refused("grpc-list-sessions", "$P call $UNIX obey.local.v1.LocalDaemonService/ListSessions"),
    refused("grpc-state", "$P call $UNIX obey.local.v1.LocalDaemonService/GetState"),
    refused("grpc-list-campaigns", "$P call $UNIX obey.v1.CampaignService/ListCampaigns"),
    refused("grpc-settings", "$P call $UNIX betcode.v1.ConfigService/GetSettings"),
    refused("grpc-task", "$P call $UNIX roz.v1.TaskService/CreateTask prompt=hello environment_id=demo"),
    refused("grpc-team", "$P call $UNIX roz.v1.AgentService/WatchTeam task_id=$OTHER"),
    refused(
        "grpc-workbench-of-another",
        "$P call $UNIX contextd.v1.SafeExecService/Bash session_id=$OTHER cmd=id",
    ),
    refused("grpc-bridge-of-another", "$P call $UNIX obey.v1.BridgeService/WatchTools session_id=$OTHER"),
    refused("grpc-editor", "$P call $UNIX obey.v1.AcpService/Connect"),
    refused("grpc-shutdown", "$P call $UNIX obey.local.v1.LocalDaemonService/Shutdown stop_sessions=true"),
    // The same over TCP, with and without the token that the agent can read.
    refused(
        "tcp-answer-own",
        "$P call $TCP obey.v1.RequestService/AnswerPermission session_id=$OWN request_id=$OWN_REQUEST decision=1",
    ),
    refused(
        "tcp-answer-own-with-token",
        "$P call $TCP obey.v1.RequestService/AnswerPermission session_id=$OWN request_id=$OWN_REQUEST decision=1 token=$TOKEN",
    )
    .in_sandbox(Expect::Impossible),
    refused("tcp-list-with-token", "$P call $TCP obey.local.v1.LocalDaemonService/ListSessions token=$TOKEN")
        .in_sandbox(Expect::Impossible),
    refused(
        "rest-start-session",
        "$P http $TCP POST /api/v1/session/start '{\"project_path\":\"'$OTHER_PROJECT'\"}'",
    ),
    refused(
        "rest-bash-of-another",
        "$P http $TCP POST /api/v1/safeexec/bash '{\"session_id\":\"'$OTHER'\",\"cmd\":\"id\"}'",
    ),
    refused(
        "rest-read-of-another",
        "$P http $TCP POST /api/v1/safeexec/read '{\"session_id\":\"'$OTHER'\",\"path\":\"secret.txt\"}'",
    ),
    refused(
        "rest-checkpoints-of-another",
        "$P http $TCP POST /api/v1/checkpoint/list '{\"session_id\":\"'$OTHER'\"}'",
    ),
    impossible(
        "mcp-in-another-project",
        "$P http $TCP POST \"/mcp?project=$OTHER_PROJECT\" '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"safe_read\",\"arguments\":{\"path\":\"secret.txt\"}}}' 'accept: application/json, text/event-stream'",
    ),
    refused(
        "bridge-of-another",
        "printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}' '{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}' | timeout 5 $D mcp --session $OTHER",
    ),
    refused(
        "editor",
        "printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}' '{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/new\",\"params\":{\"cwd\":\"'$PROJECT'\",\"mcpServers\":[]}}' | timeout 5 $D acp --provider scripted",
    ),
    // What the user's own servers do for anybody with the user's rights.
    inherent("ask-a-server-of-the-user", "$P ask unix:$RUN/runner.sock \"$D session log $OTHER\""),
];
