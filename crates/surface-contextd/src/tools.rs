//! SafeExec and Ref operations: the workbench's tools in contextd's messages.

use std::sync::Arc;
use std::time::Duration;

use domain::Error;
use wire::contextd::v1 as pb;
use workbench::memory::distill;
use workbench::{Exec, Read, Write};

use super::ContextdHandler;
use super::call::OperationCall;

impl ContextdHandler {
    /// Runs a command in the sandbox.
    pub(super) async fn exec(
        &self,
        call: &mut OperationCall,
        request: pb::BashRequest,
    ) -> Result<pb::BashResponse, Error> {
        let session = Arc::clone(call.session()?);
        let exec = Exec {
            command: request.cmd,
            working_dir: request.working_dir,
            timeout: (request.timeout > 0)
                .then(|| Duration::from_secs(u64::from(request.timeout.unsigned_abs()))),
            env: Vec::new(),
        };
        call.tier = self.workbench.tier().name();
        let answer = self.workbench.exec(&session.id, &session.project, exec).await?;
        call.tier = answer.tier.name();
        call.secrets = answer.stdout.findings.total() + answer.stderr.findings.total();
        // What is distilled from a session later names the cause.
        let (stdout, stderr) = (&answer.stdout.preview, &answer.stderr.preview);
        call.summary = distill::with_cause(&answer.summary, answer.exit_code, stdout, stderr);
        Ok(pb::BashResponse {
            summary: answer.summary,
            stdout_preview: answer.stdout.preview,
            stderr_preview: answer.stderr.preview,
            stdout_ref: answer.stdout.ref_id.unwrap_or_default(),
            stderr_ref: answer.stderr.ref_id.unwrap_or_default(),
            exit_code: answer.exit_code,
            tokens_used: 0,
        })
    }

    /// Reads a file of the project.
    pub(super) async fn read_file(
        &self,
        call: &mut OperationCall,
        request: pb::ReadRequest,
    ) -> Result<pb::ReadResponse, Error> {
        let session = Arc::clone(call.session()?);
        let read = Read {
            path: request.path,
            offset: u64::from(request.offset.unsigned_abs()),
            limit: u64::from(request.limit.unsigned_abs()),
        };
        let answer = self.workbench.read(&session.id, &session.project, read).await?;
        call.secrets = answer.content.findings.total();
        call.summary.clone_from(&answer.summary);
        Ok(pb::ReadResponse {
            summary: answer.summary,
            content_preview: answer.content.preview,
            content_ref: answer.content.ref_id.unwrap_or_default(),
            total_lines: number(answer.total_lines),
            tokens_used: 0,
        })
    }

    /// Writes a file of the project, or appends to it.
    pub(super) async fn write_file(
        &self,
        call: &mut OperationCall,
        request: pb::WriteRequest,
    ) -> Result<pb::WriteResponse, Error> {
        let session = Arc::clone(call.session()?);
        let write = Write { path: request.path, content: request.content, append: request.append };
        let answer = self.workbench.write(&session.project, write).await?;
        call.summary.clone_from(&answer.summary);
        Ok(pb::WriteResponse {
            summary: answer.summary,
            bytes_written: number(answer.bytes_written),
            tokens_used: 0,
        })
    }

    /// Returns the content of a ref.
    pub(super) async fn ref_content(
        &self,
        call: &mut OperationCall,
        request: pb::RefGetContentRequest,
    ) -> Result<pb::RefGetContentResponse, Error> {
        // Agents that named no session or a foreign one were rejected before.
        let session = call.session().ok().map(|session| session.id.clone());
        let answer = self.workbench.content(session.as_ref(), &request.ref_id, 0).await?;
        call.summary = format!("Fetched: {} ({} bytes)", request.ref_id, answer.total_bytes);
        Ok(pb::RefGetContentResponse {
            content: answer.content,
            content_type: answer.kind.name().to_owned(),
            tokens_used: 0,
        })
    }
}

/// Numbers on the wire have 32 bits.
fn number(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
