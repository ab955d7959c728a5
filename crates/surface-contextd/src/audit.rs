//! `AuditService`: executed and rejected operations, for the daemon's user.

use domain::Error;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::audit_service_server::AuditService;
use workbench::audit::Row;

use super::Contextd;
use surface::pump::Messages;
use surface::status;

#[tonic::async_trait]
impl AuditService for Contextd {
    type ReadAuditStream = Messages<pb::AuditEntry>;

    async fn read_audit(
        &self,
        request: Request<pb::ReadAuditRequest>,
    ) -> Result<Response<Self::ReadAuditStream>, Status> {
        let messages = self.read_rows(request.into_inner()).await;
        messages.map(Response::new).map_err(|error| status::grpc(&error))
    }

    async fn verify_audit(
        &self,
        _request: Request<pb::VerifyAuditRequest>,
    ) -> Result<Response<pb::VerifyAuditResponse>, Status> {
        let verdict = self.supervisor.audit().verify().await.map_err(|error| status::grpc(&error))?;
        let (broken_at, reason) = verdict.problems.first().cloned().unwrap_or_default();
        let said = |(seq, what): &(u64, String)| match seq {
            0 => what.clone(),
            seq => format!("entry {seq}: {what}"),
        };
        Ok(Response::new(pb::VerifyAuditResponse {
            intact: verdict.problems.is_empty(),
            entries: verdict.entries,
            broken_at,
            reason,
            head: hex(&verdict.head),
            problems: verdict.problems.iter().map(said).collect(),
            marked: verdict.marked,
            public_key: hex(&verdict.public_key),
        }))
    }

    type ExportAuditStream = Messages<pb::ExportAuditResponse>;

    async fn export_audit(
        &self,
        request: Request<pb::ExportAuditRequest>,
    ) -> Result<Response<Self::ExportAuditStream>, Status> {
        let export = self.supervisor.audit().export(request.into_inner().after_seq).await;
        let mut export = export.map_err(|error| status::grpc(&error))?;
        let (sender, receiver) = mpsc::channel(surface::limits::STREAM_READY_MAX);
        tokio::spawn(async move {
            loop {
                let message = match export.next().await {
                    Ok(None) => return,
                    Ok(Some(lines)) => {
                        let lines = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
                        Ok(pb::ExportAuditResponse { lines })
                    }
                    Err(error) => Err(status::grpc(&error)),
                };
                let failed = message.is_err();
                if sender.send(message).await.is_err() || failed {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

impl Contextd {
    /// Streams audit rows, and keeps following them if the request says so.
    async fn read_rows(&self, request: pb::ReadAuditRequest) -> Result<Messages<pb::AuditEntry>, Error> {
        let audit = self.supervisor.audit();
        let session = (!request.session_id.is_empty()).then_some(request.session_id);
        let mut after = request.after_seq;
        if request.last > 0 {
            after = after.max(audit.before_last(request.last, session.clone()).await?);
        }
        let (sender, receiver) = mpsc::channel(surface::limits::STREAM_READY_MAX);
        // Looked at before the rows are read, so that none is missed between.
        let mut newest = audit.watch();
        tokio::spawn(async move {
            loop {
                let rows = match audit.after(after, session.clone()).await {
                    Ok(rows) => rows,
                    Err(error) => {
                        // The client may be gone; then the error is not needed.
                        let _ = sender.send(Err(status::grpc(&error))).await;
                        return;
                    }
                };
                if rows.is_empty() {
                    if !request.follow {
                        return;
                    }
                    tokio::select! {
                        changed = newest.changed() => if changed.is_err() { return },
                        () = sender.closed() => return,
                    }
                }
                for row in rows {
                    after = row.seq;
                    if sender.send(Ok(to_wire(row))).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }
}

/// Converts one row of the audit, with its hash in hexadecimal.
fn to_wire(row: Row) -> pb::AuditEntry {
    let (seconds, nanos) = row.entry.at.seconds_and_nanos();
    pb::AuditEntry {
        seq: row.seq,
        at: Some(prost_types::Timestamp { seconds, nanos }),
        session_id: row.entry.session,
        caller: row.entry.caller,
        operation: row.entry.operation,
        input_json: row.entry.input,
        outcome: row.entry.outcome.to_string(),
        summary: row.entry.summary,
        duration_us: row.entry.duration_us,
        tier: row.entry.tier,
        secrets: row.entry.secrets,
        hash: hex(&row.hash),
        origin: row.entry.origin,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
