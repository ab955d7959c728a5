//! Policy operations in contextd's messages.

use std::sync::Arc;

use domain::{Error, ErrorCode};
use wire::contextd::v1 as pb;
use workbench::policy::{PolicyAction, Severity};

use super::ContextdHandler;
use super::call::OperationCall;

impl ContextdHandler {
    /// Checks an action, and its context, against the project's policies.
    pub(super) async fn check_policy(
        &self,
        call: &mut OperationCall,
        request: pb::PolicyCheckRequest,
    ) -> Result<pb::PolicyCheckResponse, Error> {
        let session = Arc::clone(call.session()?);
        let policies = session.project.policies()?;
        let mut found = policies.check(action(&request.action, &request.context));
        let writes = request.action.trim_start().starts_with("write ");
        if !writes && !request.context.is_empty() {
            // The context of a command may contain a file's content.
            let more = policies.check(PolicyAction::Other(&request.context));
            found.extend(
                more.into_iter()
                    .filter(|more| found.iter().all(|known| known.id != more.id))
                    .collect::<Vec<_>>(),
            );
        }
        let compliant = found.iter().all(|violation| violation.severity < Severity::Critical);
        let mut suggestions: Vec<String> = Vec::new();
        let mut violations = Vec::with_capacity(found.len());
        for violation in found {
            if !violation.suggestion.is_empty() && !suggestions.contains(&violation.suggestion) {
                suggestions.push(violation.suggestion);
            }
            violations.push(pb::PolicyViolation {
                policy_id: violation.id,
                policy_title: violation.title,
                reason: call.clean(&violation.reason)?,
                severity: violation.severity.name().to_owned(),
            });
        }
        call.summary = match violations.first() {
            None => "Checked: nothing stands against it".to_owned(),
            Some(worst) => format!("Checked: {} ({})", worst.policy_title, worst.severity),
        };
        Ok(pb::PolicyCheckResponse { compliant, violations, suggestions, tokens_used: 0 })
    }

    /// Lists the project's policies, filtered by scope and category.
    pub(super) async fn list_policies(
        &self,
        call: &mut OperationCall,
        request: pb::PolicyListRequest,
    ) -> Result<pb::PolicyListResponse, Error> {
        let session = Arc::clone(call.session()?);
        let fits = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
        let policies: Vec<pb::PolicyRef> = session
            .project
            .policies()?
            .all()
            .iter()
            .filter(|policy| fits(&request.scope, policy.source.scope()))
            .filter(|policy| fits(&request.category, policy.category.name()))
            .map(|policy| pb::PolicyRef {
                id: policy.id.clone(),
                title: policy.title.clone(),
                category: policy.category.name().to_owned(),
                severity: policy.severity.name().to_owned(),
            })
            .collect();
        call.summary = format!("Listed: {} policies", policies.len());
        Ok(pb::PolicyListResponse { policies, tokens_used: 0 })
    }

    /// Returns a whole policy; its suggestion is appended to the requirement.
    pub(super) async fn get_policy(
        &self,
        call: &mut OperationCall,
        request: pb::PolicyGetRequest,
    ) -> Result<pb::PolicyGetResponse, Error> {
        let session = Arc::clone(call.session()?);
        let policies = session.project.policies()?;
        let policy = policies.all().iter().find(|policy| policy.id == request.id);
        let policy = policy.ok_or_else(|| {
            Error::new(ErrorCode::ItemNotFound, format!("id: there is no policy {:?} here", request.id))
        })?;
        call.summary = format!("Told: {}", policy.id);
        let mut requirement = policy.requirement.clone();
        if !policy.suggestion.is_empty() {
            requirement.push_str(&format!(" Instead: {}", policy.suggestion));
        }
        let enforcement = policy.enforcement().to_owned();
        Ok(pb::PolicyGetResponse {
            id: policy.id.clone(),
            title: policy.title.clone(),
            category: policy.category.name().to_owned(),
            severity: policy.severity.name().to_owned(),
            requirement,
            enforcement,
            tokens_used: 0,
        })
    }
}

/// Parses the action: `write PATH`, `read PATH`, or a command.
fn action<'a>(text: &'a str, context: &'a str) -> PolicyAction<'a> {
    let text = text.trim();
    match text.split_once(' ') {
        Some(("write", path)) => PolicyAction::Write { path: path.trim(), content: context },
        Some(("read", path)) => PolicyAction::Read(path.trim()),
        _ => PolicyAction::Command(text),
    }
}
