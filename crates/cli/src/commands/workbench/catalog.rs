//! `obey skill` and `obey agent`; and agents for `obey session create --agent NAME`.

use tonic::Code;
use wire::contextd::v1 as pb;

use super::{WorkbenchSession, ask, nothing, show};
use cli_args::workbench::{AgentCommand, SkillCommand, WorkbenchSessionArgs};
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;

pub(in crate::commands) async fn run_skills(console: &mut Console, command: SkillCommand) -> Result<Exit> {
    match command {
        SkillCommand::List { session_args, scope } => {
            let answer = ask!(console, &session_args, skills.list, |session_id| pb::SkillListRequest {
                scope,
                session_id
            });
            if answer.skills.is_empty() && !console.out.json {
                nothing(console, "No skills.")?;
            }
            let line = |it: &pb::SkillRef| format!("{}  {}  {}", it.id, it.name, it.description_preview);
            show(console, &answer, &answer.skills.iter().map(line).collect::<Vec<_>>())?;
        }
        SkillCommand::Get { session_args, id } => {
            let answer =
                ask!(console, &session_args, skills.get, |session_id| pb::SkillGetRequest { id, session_id });
            let mut lines = vec![format!("{} ({})", answer.name, answer.id), answer.description.clone()];
            lines.push(format!("When: {}", answer.trigger));
            lines.extend((1..).zip(&answer.steps).map(|(number, step)| format!("{number}. {step}")));
            lines.push(answer.prompt_template.clone());
            lines.retain(|line| !line.is_empty());
            show(console, &answer, &lines)?;
        }
        SkillCommand::Create { session_args, name, text, scope } => {
            let answer = ask!(console, &session_args, skills.create, |session_id| pb::SkillCreateRequest {
                name,
                description: text.description,
                trigger: text.trigger,
                steps: text.steps,
                prompt_template: text.prompt,
                scope,
                session_id,
            });
            show(console, &answer, std::slice::from_ref(&answer.id))?;
        }
        SkillCommand::Update { session_args, id, name, text } => {
            let answer = ask!(console, &session_args, skills.update, |session_id| pb::SkillUpdateRequest {
                id,
                name,
                description: text.description,
                trigger: text.trigger,
                steps: text.steps,
                prompt_template: text.prompt,
                session_id,
            });
            show(console, &answer, &["Updated".to_owned()])?;
        }
        SkillCommand::Delete { session_args, id } => {
            let answer = ask!(console, &session_args, skills.delete, |session_id| pb::SkillDeleteRequest {
                id,
                session_id
            });
            show(console, &answer, &["Deleted".to_owned()])?;
        }
    }
    Ok(Exit::OK)
}

pub(in crate::commands) async fn run_agents(console: &mut Console, command: AgentCommand) -> Result<Exit> {
    match command {
        AgentCommand::List { session_args, scope } => {
            let answer = ask!(console, &session_args, agents.list, |session_id| pb::AgentListRequest {
                scope,
                session_id
            });
            if answer.agents.is_empty() && !console.out.json {
                nothing(
                    console,
                    "No agents. Write one down with: obey agent create NAME --system-prompt \"…\"",
                )?;
            }
            let line = |it: &pb::AgentRef| format!("{}  {}  {}", it.id, it.name, it.description_preview);
            show(console, &answer, &answer.agents.iter().map(line).collect::<Vec<_>>())?;
        }
        AgentCommand::Get { session_args, id } => {
            let answer =
                ask!(console, &session_args, agents.get, |session_id| pb::AgentGetRequest { id, session_id });
            let mut lines = vec![
                format!("{} ({})", answer.name, answer.id),
                answer.description.clone(),
                answer.system_prompt.clone(),
            ];
            if !answer.model_preference.is_empty() {
                lines.push(format!("Model: {}", answer.model_preference));
            }
            if !answer.skills.is_empty() {
                lines.push(format!("Skills: {}", answer.skills.join(", ")));
            }
            if !answer.collections_access.is_empty() {
                lines.push(format!("Collections: {}", answer.collections_access.join(", ")));
            }
            if answer.temperature > 0.0 {
                lines.push(format!("Temperature: {}", answer.temperature));
            }
            lines.retain(|line| !line.is_empty());
            show(console, &answer, &lines)?;
        }
        AgentCommand::Create { session_args, name, text, scope } => {
            let answer = ask!(console, &session_args, agents.create, |session_id| pb::AgentCreateRequest {
                name,
                description: text.description,
                system_prompt: text.system_prompt,
                skills: text.skills,
                collections_access: text.collections,
                model_preference: text.model,
                temperature: text.temperature,
                scope,
                session_id,
            });
            show(console, &answer, std::slice::from_ref(&answer.id))?;
        }
        AgentCommand::Delete { session_args, id } => {
            let answer = ask!(console, &session_args, agents.delete, |session_id| pb::AgentDeleteRequest {
                id,
                session_id
            });
            show(console, &answer, &["Deleted".to_owned()])?;
        }
    }
    Ok(Exit::OK)
}

/// The settings that a catalog agent adds to a session.
#[derive(Debug, Default)]
pub(in crate::commands) struct Character {
    pub(in crate::commands) system_prompt: String,
    pub(in crate::commands) model: String,
    /// 0: none is preferred.
    pub(in crate::commands) temperature: f32,
    /// The collections it may use; empty: all.
    pub(in crate::commands) collections: Vec<String>,
}

/// Looks up an agent by name, with its skills written out; `None` if the catalog has no such agent.
pub(in crate::commands) async fn agent(
    console: &mut Console,
    project: std::path::PathBuf,
    name: &str,
) -> Result<Option<Character>> {
    let session_args = WorkbenchSessionArgs { session: None, project: Some(project) };
    let visit = match WorkbenchSession::open(console, &session_args).await {
        Ok(visit) => visit,
        // A daemon without a workbench has no catalog.
        Err(failure) if failure.grpc == Some(Code::Unimplemented) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let found = character(&visit, name).await;
    visit.close().await;
    found
}

/// Returns an agent of the catalog with the text of its skills; `None` if it does not exist.
async fn character(visit: &WorkbenchSession, name: &str) -> Result<Option<Character>> {
    let request = pb::AgentGetRequest { id: name.to_owned(), session_id: visit.session() };
    let agent = match visit.client.agents().get(request).await {
        Ok(agent) => agent.into_inner(),
        Err(status) if status.code() == Code::NotFound => return Ok(None),
        Err(status) => return Err(status.into()),
    };
    let mut system_prompt = agent.system_prompt;
    for id in agent.skills {
        let request = pb::SkillGetRequest { id, session_id: visit.session() };
        let skill = visit.client.skills().get(request).await?.into_inner();
        system_prompt.push_str(&format!("\n\nSkill {}: {}", skill.name, skill.description));
        if !skill.trigger.is_empty() {
            system_prompt.push_str(&format!("\nUse it when: {}", skill.trigger));
        }
        for (number, step) in (1..).zip(&skill.steps) {
            system_prompt.push_str(&format!("\n{number}. {step}"));
        }
        if !skill.prompt_template.is_empty() {
            system_prompt.push_str(&format!("\nStart from this prompt: {}", skill.prompt_template));
        }
    }
    let (model, temperature) = (agent.model_preference, agent.temperature);
    Ok(Some(Character { system_prompt, model, temperature, collections: agent.collections_access }))
}
