//! Skill and Agent operations: catalog entries in contextd's messages.

use std::sync::Arc;

use domain::Error;
use host::clock;
use runtime::collections;
use serde::{Deserialize, Serialize};
use wire::contextd::v1 as pb;
use workbench::catalog::{CatalogItem, CatalogKind};
use workbench::limits as most;
use workbench::place::Scope;

use super::ContextdHandler;
use super::call::OperationCall;
use super::sessions::shortened;

/// The stored form of a skill. Fields may be added.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredSkill {
    description: String,
    trigger: String,
    steps: Vec<String>,
    prompt_template: String,
}

/// The stored form of an agent. Fields may be added.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredAgent {
    description: String,
    system_prompt: String,
    skills: Vec<String>,
    collections_access: Vec<String>,
    model_preference: String,
    temperature: f32,
}

impl ContextdHandler {
    /// Lists the skills of a scope, each with a preview of its description.
    pub(super) async fn list_skills(
        &self,
        call: &mut OperationCall,
        request: pb::SkillListRequest,
    ) -> Result<pb::SkillListResponse, Error> {
        let session = Arc::clone(call.session()?);
        let scope = filter(&request.scope)?;
        let found: Vec<CatalogItem<StoredSkill>> =
            self.workbench.catalog().list(CatalogKind::Skill, &session.place, scope).await?;
        let mut skills = Vec::with_capacity(found.len());
        for item in found {
            let description_preview = preview(&call.clean(&item.body.description)?);
            skills.push(pb::SkillRef { id: item.id, name: call.clean(&item.name)?, description_preview });
        }
        call.summary = format!("Listed: {} skills", skills.len());
        Ok(pb::SkillListResponse { skills, tokens_used: 0 })
    }

    /// Returns a whole skill.
    pub(super) async fn get_skill(
        &self,
        call: &mut OperationCall,
        request: pb::SkillGetRequest,
    ) -> Result<pb::SkillGetResponse, Error> {
        let session = Arc::clone(call.session()?);
        let item: CatalogItem<StoredSkill> =
            self.workbench.catalog().get(CatalogKind::Skill, &session.place, &request.id).await?;
        call.summary = format!("Told: {}", item.id);
        let (name, description) = (call.clean(&item.name)?, call.clean(&item.body.description)?);
        let (trigger, steps) = (call.clean(&item.body.trigger)?, call.clean_all(&item.body.steps)?);
        let prompt_template = call.clean(&item.body.prompt_template)?;
        Ok(pb::SkillGetResponse {
            id: item.id,
            name,
            description,
            trigger,
            steps,
            prompt_template,
            tokens_used: 0,
        })
    }

    /// Stores a new skill; without a scope it belongs to the project.
    pub(super) async fn create_skill(
        &self,
        call: &mut OperationCall,
        request: pb::SkillCreateRequest,
    ) -> Result<pb::SkillCreateResponse, Error> {
        let session = Arc::clone(call.session()?);
        let scope = Scope::parse(&request.scope, Scope::Project)?;
        let name = call.clean(&request.name)?;
        let skill = StoredSkill {
            description: call.clean(&request.description)?,
            trigger: call.clean(&request.trigger)?,
            steps: call.clean_all(&request.steps)?,
            prompt_template: call.clean(&request.prompt_template)?,
        };
        let catalog = self.workbench.catalog();
        let id =
            catalog.create(CatalogKind::Skill, &session.place, scope, &name, &skill, clock::now()).await?;
        call.summary = format!("Created: skill {name} ({id})");
        Ok(pb::SkillCreateResponse { tokens_used: 0, id })
    }

    /// Changes a skill; empty fields keep their value.
    pub(super) async fn update_skill(
        &self,
        call: &mut OperationCall,
        request: pb::SkillUpdateRequest,
    ) -> Result<pb::SkillUpdateResponse, Error> {
        let session = Arc::clone(call.session()?);
        let (name, description) = (call.clean(&request.name)?, call.clean(&request.description)?);
        let (trigger, steps) = (call.clean(&request.trigger)?, call.clean_all(&request.steps)?);
        let prompt_template = call.clean(&request.prompt_template)?;
        let change = move |item: CatalogItem<StoredSkill>| {
            let skill = StoredSkill {
                description: or(description, item.body.description),
                trigger: or(trigger, item.body.trigger),
                steps: or_list(steps, item.body.steps),
                prompt_template: or(prompt_template, item.body.prompt_template),
            };
            (or(name, item.name), skill)
        };
        let catalog = self.workbench.catalog();
        catalog.update(CatalogKind::Skill, &session.place, &request.id, clock::now(), change).await?;
        call.summary = format!("Updated: skill {}", request.id);
        Ok(pb::SkillUpdateResponse { tokens_used: 0 })
    }

    /// Removes a skill.
    pub(super) async fn delete_skill(
        &self,
        call: &mut OperationCall,
        request: pb::SkillDeleteRequest,
    ) -> Result<pb::SkillDeleteResponse, Error> {
        let session = Arc::clone(call.session()?);
        self.workbench.catalog().delete(CatalogKind::Skill, &session.place, &request.id).await?;
        call.summary = format!("Deleted: skill {}", request.id);
        Ok(pb::SkillDeleteResponse { tokens_used: 0 })
    }

    /// Lists the agents of a scope, each with a preview of its description.
    pub(super) async fn list_agents(
        &self,
        call: &mut OperationCall,
        request: pb::AgentListRequest,
    ) -> Result<pb::AgentListResponse, Error> {
        let session = Arc::clone(call.session()?);
        let scope = filter(&request.scope)?;
        let found: Vec<CatalogItem<StoredAgent>> =
            self.workbench.catalog().list(CatalogKind::Agent, &session.place, scope).await?;
        let mut agents = Vec::with_capacity(found.len());
        for item in found {
            let description_preview = preview(&call.clean(&item.body.description)?);
            agents.push(pb::AgentRef { id: item.id, name: call.clean(&item.name)?, description_preview });
        }
        call.summary = format!("Listed: {} agents", agents.len());
        Ok(pb::AgentListResponse { agents, tokens_used: 0 })
    }

    /// Returns a whole agent.
    pub(super) async fn get_agent(
        &self,
        call: &mut OperationCall,
        request: pb::AgentGetRequest,
    ) -> Result<pb::AgentGetResponse, Error> {
        let session = Arc::clone(call.session()?);
        let item: CatalogItem<StoredAgent> =
            self.workbench.catalog().get(CatalogKind::Agent, &session.place, &request.id).await?;
        call.summary = format!("Told: {}", item.id);
        let (name, description) = (call.clean(&item.name)?, call.clean(&item.body.description)?);
        let system_prompt = call.clean(&item.body.system_prompt)?;
        Ok(pb::AgentGetResponse {
            id: item.id,
            name,
            description,
            system_prompt,
            skills: item.body.skills,
            collections_access: item.body.collections_access,
            model_preference: item.body.model_preference,
            temperature: item.body.temperature,
            tokens_used: 0,
        })
    }

    /// Stores a new agent; without a scope it belongs to the project.
    pub(super) async fn create_agent(
        &self,
        call: &mut OperationCall,
        request: pb::AgentCreateRequest,
    ) -> Result<pb::AgentCreateResponse, Error> {
        let session = Arc::clone(call.session()?);
        let scope = Scope::parse(&request.scope, Scope::Project)?;
        collections::check("collections_access", &request.collections_access)?;
        let name = call.clean(&request.name)?;
        let agent = StoredAgent {
            description: call.clean(&request.description)?,
            system_prompt: call.clean(&request.system_prompt)?,
            skills: call.clean_all(&request.skills)?,
            collections_access: call.clean_all(&request.collections_access)?,
            model_preference: call.clean(&request.model_preference)?,
            temperature: request.temperature,
        };
        let catalog = self.workbench.catalog();
        let id =
            catalog.create(CatalogKind::Agent, &session.place, scope, &name, &agent, clock::now()).await?;
        call.summary = format!("Created: agent {name} ({id})");
        Ok(pb::AgentCreateResponse { tokens_used: 0, id })
    }

    /// Changes an agent; empty fields keep their value.
    pub(super) async fn update_agent(
        &self,
        call: &mut OperationCall,
        request: pb::AgentUpdateRequest,
    ) -> Result<pb::AgentUpdateResponse, Error> {
        let session = Arc::clone(call.session()?);
        collections::check("collections_access", &request.collections_access)?;
        let (name, description) = (call.clean(&request.name)?, call.clean(&request.description)?);
        let (system_prompt, model) =
            (call.clean(&request.system_prompt)?, call.clean(&request.model_preference)?);
        let (skills, collections) =
            (call.clean_all(&request.skills)?, call.clean_all(&request.collections_access)?);
        let change = move |item: CatalogItem<StoredAgent>| {
            let agent = StoredAgent {
                description: or(description, item.body.description),
                system_prompt: or(system_prompt, item.body.system_prompt),
                skills: or_list(skills, item.body.skills),
                collections_access: or_list(collections, item.body.collections_access),
                model_preference: or(model, item.body.model_preference),
                temperature: request.temperature.unwrap_or(item.body.temperature),
            };
            (or(name, item.name), agent)
        };
        let catalog = self.workbench.catalog();
        catalog.update(CatalogKind::Agent, &session.place, &request.id, clock::now(), change).await?;
        call.summary = format!("Updated: agent {}", request.id);
        Ok(pb::AgentUpdateResponse { tokens_used: 0 })
    }

    /// Removes an agent.
    pub(super) async fn delete_agent(
        &self,
        call: &mut OperationCall,
        request: pb::AgentDeleteRequest,
    ) -> Result<pb::AgentDeleteResponse, Error> {
        let session = Arc::clone(call.session()?);
        self.workbench.catalog().delete(CatalogKind::Agent, &session.place, &request.id).await?;
        call.summary = format!("Deleted: agent {}", request.id);
        Ok(pb::AgentDeleteResponse { tokens_used: 0 })
    }
}

fn filter(scope: &str) -> Result<Option<Scope>, Error> {
    if scope.is_empty() { Ok(None) } else { Scope::parse(scope, Scope::Project).map(Some) }
}

fn preview(text: &str) -> String {
    shortened(text, most::DESCRIPTION_PREVIEW_CHARS)
}

/// Returns the new value, or the old one if the new one is empty.
fn or(new: String, old: String) -> String {
    if new.is_empty() { old } else { new }
}

fn or_list(new: Vec<String>, old: Vec<String>) -> Vec<String> {
    if new.is_empty() { old } else { new }
}
