//! Remediation operations: errors and their solutions, in contextd's messages.

use std::sync::Arc;

use domain::Error;
use host::clock;
use wire::contextd::v1 as pb;
use workbench::limits as most;
use workbench::remediation::{Remediation, RemediationDetails};

use super::ContextdHandler;
use super::call::OperationCall;
use super::memories::limit;
use super::sessions::shortened;

/// Preview lengths in characters. The solution is what the caller is looking for, so it gets more.
const PROBLEM_CHARS: usize = 100;
const SOLUTION_CHARS: usize = 300;

impl ContextdHandler {
    /// Searches for remediations whose problem resembles the error.
    pub(super) async fn search_remediations(
        &self,
        call: &mut OperationCall,
        request: pb::RemediationSearchRequest,
    ) -> Result<pb::RemediationSearchResponse, Error> {
        let session = Arc::clone(call.session()?);
        let most = limit(request.limit, most::REMEDIATIONS_DEFAULT);
        // Remediations are stored without secrets, so the error that is compared with them must not contain
        // any either.
        let (error, context) = (call.clean(&request.error)?, call.clean(&request.context)?);
        let found = self.workbench.remediations().search(&session.place, &error, &context, most).await?;
        let mut remediations = Vec::with_capacity(found.len());
        for cure in found {
            remediations.push(pb::RemediationRef {
                id: cure.id,
                title: call.clean(&cure.title)?,
                problem_preview: shortened(&call.clean(&cure.problem)?, PROBLEM_CHARS),
                solution_preview: shortened(&call.clean(&cure.solution)?, SOLUTION_CHARS),
                confidence: cure.similarity,
            });
        }
        call.summary = format!("Found: {} remediations", remediations.len());
        Ok(pb::RemediationSearchResponse { remediations, tokens_used: 0 })
    }

    /// Stores a remediation.
    pub(super) async fn record_remediation(
        &self,
        call: &mut OperationCall,
        request: pb::RemediationRecordRequest,
    ) -> Result<pb::RemediationRecordResponse, Error> {
        let session = Arc::clone(call.session()?);
        let new = Remediation {
            title: call.clean(&request.title)?,
            problem: call.clean(&request.problem)?,
            solution: call.clean(&request.solution)?,
            more: RemediationDetails {
                symptoms: call.clean_all(&request.symptoms)?,
                root_cause: call.clean(&request.root_cause)?,
                code_diff: call.clean(&request.code_diff)?,
                affected_files: call.clean_all(&request.affected_files)?,
            },
        };
        let id = self.workbench.remediations().record(&session.place, new, clock::now()).await?;
        call.summary = format!("Recorded: {id}");
        Ok(pb::RemediationRecordResponse { tokens_used: 0, id })
    }
}
