//! What an ACP agent asks of its client, which is the daemon: files and commands. The daemon does it in the workbench, which
//! never leaves the project, whatever the mode of the session lets pass.

use super::table::{Expect, Try, impossible};

pub(super) const ATTEMPTS: &[Try] = &[
    impossible(
        "client-reads-another-project",
        "acp:fs/read_text_file {\"path\":\"$OTHER_PROJECT/secret.txt\"}",
    ),
    impossible("client-reads-home", "acp:fs/read_text_file {\"path\":\"$HOME_OF_USER/secret.txt\"}"),
    impossible("client-reads-upwards", "acp:fs/read_text_file {\"path\":\"$PROJECT/../home/secret.txt\"}"),
    impossible("client-reads-token", "acp:fs/read_text_file {\"path\":\"$TOKEN\"}"),
    impossible("client-reads-by-link", "acp:fs/read_text_file {\"path\":\"$PROJECT/link\"}"),
    impossible(
        "client-writes-outside",
        "acp:fs/write_text_file {\"path\":\"$MARKS/client-writes-outside\",\"content\":\"x\"}",
    ),
    impossible(
        "client-writes-by-link",
        "acp:fs/write_text_file {\"path\":\"$PROJECT/marks/client-writes-by-link\",\"content\":\"x\"}",
    ),
    impossible(
        "client-writes-rules",
        "acp:fs/write_text_file {\"path\":\"$PROJECT/.obey/client-writes-rules\",\"content\":\"x\"}",
    ),
    impossible(
        "client-runs-outside",
        "acp:terminal/create {\"command\":\"sh\",\"args\":[\"-c\",\"cat $HOME_OF_USER/secret.txt > $PROJECT/output-of-client; touch $MARKS/client-runs-outside\"]}",
    ),
    impossible("client-ran", "sleep 0.2; cat $PROJECT/output-of-client"),
    impossible("client-wrote-rules", "test -e $PROJECT/.obey/client-writes-rules && echo POSSIBLE"),
    // It must be of use, or the above proves nothing.
    impossible(
        "client-writes-inside",
        "acp:fs/write_text_file {\"path\":\"$PROJECT/client-writes-inside\",\"content\":\"x\"}",
    )
    .in_sandbox(Expect::Possible)
    .without_sandbox(Expect::Possible),
];
