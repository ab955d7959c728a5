//! `obey memory`, `obey checkpoint`, `obey remediation`, `obey policy`.

use wire::contextd::v1 as pb;

use super::{ask, nothing, show};
use crate::local::LocalCommands;
use cli_args::workbench::{CheckpointCommand, MemoryCommand, PolicyCommand, RemediationCommand};
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;

pub(in crate::commands) async fn run_memories(
    console: &mut Console,
    command: MemoryCommand,
    local: &dyn LocalCommands,
) -> Result<Exit> {
    match command {
        MemoryCommand::Setup { from } => return local.memory_setup(console, from).await,
        MemoryCommand::Search { session_args, query, scope, outcome, limit, min_confidence } => {
            let answer =
                ask!(console, &session_args, memories.search, |session_id| pb::MemorySearchRequest {
                    query,
                    scope,
                    outcome,
                    limit,
                    min_confidence: Some(min_confidence),
                    session_id,
                });
            if answer.memories.is_empty() && !console.out.json {
                nothing(console, "No memory fits.")?;
            }
            let line = |it: &pb::MemoryRef| {
                format!("{}  {:.2}  {:<7}  {}", it.id, it.confidence, it.outcome, it.title)
            };
            show(console, &answer, &answer.memories.iter().map(line).collect::<Vec<_>>())?;
        }
        MemoryCommand::Store { session_args, title, content, description, outcome, tags } => {
            let answer = ask!(console, &session_args, memories.store, |session_id| pb::MemoryStoreRequest {
                title,
                description,
                content,
                outcome,
                tags,
                session_id,
            });
            show(console, &answer, std::slice::from_ref(&answer.id))?;
        }
        MemoryCommand::Get { session_args, id } => {
            let answer = ask!(console, &session_args, memories.get, |session_id| pb::MemoryGetRequest {
                id,
                session_id
            });
            let lines = [
                format!("{} ({}, {:.2})", answer.title, answer.outcome, answer.confidence),
                answer.description.clone(),
                answer.content.clone(),
            ];
            show(console, &answer, &lines)?;
        }
        MemoryCommand::Feedback { session_args, id, helpful, comment, .. } => {
            let answer = ask!(console, &session_args, memories.feedback, |session_id| {
                pb::MemoryFeedbackRequest { memory_id: id, helpful, comment, session_id }
            });
            show(console, &answer, &[format!("Confidence: {:.2}", answer.new_confidence)])?;
        }
    }
    Ok(Exit::OK)
}

pub(in crate::commands) async fn run_checkpoints(
    console: &mut Console,
    command: CheckpointCommand,
) -> Result<Exit> {
    match command {
        CheckpointCommand::Save { session_args, summary, tags } => {
            let answer = ask!(console, &session_args, checkpoints.save, |session_id| {
                pb::CheckpointSaveRequest { summary, tags, session_id }
            });
            show(console, &answer, std::slice::from_ref(&answer.checkpoint_id))?;
        }
        CheckpointCommand::List { session_args, limit } => {
            let answer = ask!(console, &session_args, checkpoints.list, |session_id| {
                pb::CheckpointListRequest { limit, session_id }
            });
            if answer.checkpoints.is_empty() && !console.out.json {
                nothing(console, "No checkpoints. Save one with: obey checkpoint save \"…\"")?;
            }
            let line = |it: &pb::CheckpointRef| format!("{}  {}  {}", it.id, it.created_at, it.summary);
            show(console, &answer, &answer.checkpoints.iter().map(line).collect::<Vec<_>>())?;
        }
        CheckpointCommand::Resume { session_args, id, level } => {
            resume(console, session_args, id, level).await?
        }
        CheckpointCommand::Restore { session_args, id } => {
            return super::restore::run(console, &session_args, &id).await;
        }
    }
    Ok(Exit::OK)
}

/// At level full the record is behind a ref that ends with the session, so it is fetched at once.
async fn resume(
    console: &mut Console,
    session_args: cli_args::workbench::WorkbenchSessionArgs,
    checkpoint_id: String,
    level: String,
) -> Result<()> {
    let visit = super::WorkbenchSession::open(console, &session_args).await?;
    let session_id = visit.session();
    let request = pb::CheckpointResumeRequest { checkpoint_id, level, session_id: session_id.clone() };
    let answer = async {
        let answer = visit.client.checkpoints().resume(request).await?.into_inner();
        let mut everything = String::new();
        if !answer.context_ref.is_empty() {
            let request = pb::RefGetContentRequest { ref_id: answer.context_ref.clone(), session_id };
            everything = visit.client.refs().get_content(request).await?.into_inner().content;
        }
        Ok::<_, tonic::Status>((answer, everything))
    };
    let answer = answer.await;
    visit.close().await;
    let (answer, everything) = answer?;
    let text = [everything, answer.context.clone(), answer.summary.clone()]
        .into_iter()
        .find(|text| !text.is_empty());
    show(console, &answer, &[text.unwrap_or_default().trim_end().to_owned()])
}

/// Returns the context an agent needs to resume from a checkpoint of a project.
pub(in crate::commands) async fn checkpoint_context(
    console: &mut Console,
    project: std::path::PathBuf,
    checkpoint_id: String,
) -> Result<String> {
    let session_args = cli_args::workbench::WorkbenchSessionArgs { session: None, project: Some(project) };
    let level = "context".to_owned();
    let answer = ask!(console, &session_args, checkpoints.resume, |session_id| pb::CheckpointResumeRequest {
        checkpoint_id,
        level,
        session_id,
    });
    Ok(answer.context)
}

pub(in crate::commands) async fn run_remediations(
    console: &mut Console,
    command: RemediationCommand,
) -> Result<Exit> {
    match command {
        RemediationCommand::Search { session_args, error, context, limit } => {
            let answer = ask!(console, &session_args, remediations.search, |session_id| {
                pb::RemediationSearchRequest { error, context, limit, session_id }
            });
            if answer.remediations.is_empty() && !console.out.json {
                nothing(console, "No cure is known.")?;
            }
            let line = |it: &pb::RemediationRef| {
                format!("{}  {:.2}  {}: {}", it.id, it.confidence, it.title, it.solution_preview)
            };
            show(console, &answer, &answer.remediations.iter().map(line).collect::<Vec<_>>())?;
        }
        RemediationCommand::Record { session_args, title, problem, solution, root_cause } => {
            let answer = ask!(console, &session_args, remediations.record, |session_id| {
                pb::RemediationRecordRequest {
                    title,
                    problem,
                    root_cause,
                    solution,
                    session_id,
                    ..pb::RemediationRecordRequest::default()
                }
            });
            show(console, &answer, std::slice::from_ref(&answer.id))?;
        }
    }
    Ok(Exit::OK)
}

pub(in crate::commands) async fn run_policies(console: &mut Console, command: PolicyCommand) -> Result<Exit> {
    match command {
        PolicyCommand::Check { session_args, action, context } => {
            let answer = ask!(console, &session_args, policies.check, |session_id| pb::PolicyCheckRequest {
                action,
                context,
                session_id,
            });
            let line = |it: &pb::PolicyViolation| {
                format!("{} {}: {} ({})", it.severity, it.policy_id, it.policy_title, it.reason)
            };
            let mut lines: Vec<String> = answer.violations.iter().map(line).collect();
            lines.extend(answer.suggestions.iter().map(|suggestion| format!("instead: {suggestion}")));
            if lines.is_empty() {
                lines.push("Nothing stands against it.".to_owned());
            }
            show(console, &answer, &lines)?;
            return Ok(if answer.compliant { Exit::OK } else { Exit::DENIED });
        }
        PolicyCommand::List { session_args, scope, category } => {
            let answer = ask!(console, &session_args, policies.list, |session_id| pb::PolicyListRequest {
                scope,
                category,
                session_id,
            });
            let line = |it: &pb::PolicyRef| {
                format!("{:<24} {:<9} {:<8} {}", it.id, it.category, it.severity, it.title)
            };
            show(console, &answer, &answer.policies.iter().map(line).collect::<Vec<_>>())?;
        }
        PolicyCommand::Get { session_args, id } => {
            let answer = ask!(console, &session_args, policies.get, |session_id| pb::PolicyGetRequest {
                id,
                session_id
            });
            let lines = [
                format!("{} ({}, {})", answer.title, answer.category, answer.severity),
                answer.requirement.clone(),
                answer.enforcement.clone(),
            ];
            show(console, &answer, &lines)?;
        }
    }
    Ok(Exit::OK)
}
