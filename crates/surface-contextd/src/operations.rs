//! Every operation of `contextd.v1` in one table: service and method, REST route, tool name, field rules, and
//! handler function. gRPC, REST and tools all use `ContextdHandler::run`; an operation that is not in this
//! table is not served.

use domain::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tonic::{Request, Response, Status};
use wire::access::Row;
use wire::contextd::v1 as pb;
use wire::contextd::v1::agent_service_server::AgentService;
use wire::contextd::v1::checkpoint_service_server::CheckpointService;
use wire::contextd::v1::memory_service_server::MemoryService;
use wire::contextd::v1::policy_service_server::PolicyService;
use wire::contextd::v1::ref_service_server::RefService;
use wire::contextd::v1::remediation_service_server::RemediationService;
use wire::contextd::v1::safe_exec_service_server::SafeExecService;
use wire::contextd::v1::session_service_server::SessionService;
use wire::contextd::v1::skill_service_server::SkillService;

use super::call::OperationCall;
use super::fields::{self, FieldRule};
use super::{Contextd, ContextdHandler, reading};
use surface::asking::Asking;
use surface::peer::{self, Caller};
use surface::{access, status};

/// The HTTP methods in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    Get,
    Post,
    Put,
    Delete,
}

impl Operation {
    /// Returns the operation's row of the access table.
    pub fn access(&self) -> Option<&'static Row> {
        access::tool(self.tool)
    }
}

impl HttpMethod {
    /// Returns the method's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    /// `Service.Method`, the key in schema.json.
    pub key: &'static str,
    /// Without the suffix `Service`.
    pub service: &'static str,
    pub method: &'static str,
    pub verb: HttpMethod,
    /// `{id}` stands for the field of that name.
    pub path: &'static str,
    /// The name as a tool.
    pub tool: &'static str,
    pub fields: &'static [FieldRule],
    /// The names of its messages.
    pub input: &'static str,
    pub output: &'static str,
}

/// A request that can be executed.
pub(super) trait HandledOperation: Serialize + DeserializeOwned + Send + 'static {
    type Answer: Serialize + Send + 'static;
    const KEY: &'static str;

    /// Sets what the answer says of its own size.
    fn set_tokens_used(answer: &mut Self::Answer, tokens_used: i32);

    fn handle(
        self,
        handler: &ContextdHandler,
        call: &mut OperationCall,
    ) -> impl Future<Output = Result<Self::Answer, Error>> + Send;
}

/// Returns the operation with this key.
pub fn operation(key: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.key == key)
}

macro_rules! operations {
    ($($service:ident: $trait:ident {
        $($method:ident $name:ident $verb:ident $path:literal $tool:ident $fields:ident
            $input:ident -> $output:ident = $handler:ident;)*
    })*) => {
        /// All operations.
        pub const OPERATIONS: &[Operation] = &[$($(Operation {
            key: concat!(stringify!($service), ".", stringify!($method)),
            service: stringify!($service),
            method: stringify!($method),
            verb: HttpMethod::$verb,
            path: $path,
            tool: stringify!($tool),
            fields: fields::$fields,
            input: stringify!($input),
            output: stringify!($output),
        },)*)*];

        $($(impl HandledOperation for pb::$input {
            type Answer = pb::$output;
            const KEY: &'static str = concat!(stringify!($service), ".", stringify!($method));

            fn set_tokens_used(answer: &mut pb::$output, tokens_used: i32) {
                answer.tokens_used = tokens_used;
            }

            async fn handle(self, handler: &ContextdHandler, call: &mut OperationCall) -> Result<pb::$output, Error> {
                handler.$handler(call, self).await
            }
        })*)*

        $(#[tonic::async_trait]
        impl $trait for Contextd {
            $(async fn $name(&self, request: Request<pb::$input>) -> Result<Response<pb::$output>, Status> {
                let caller = peer::caller(request.extensions());
                let answer = match self.handler().await {
                    Ok(handler) => handler.run(caller, request.into_inner(), None, Asking::Unnamed).await,
                    Err(error) => Err(error),
                };
                answer.map(Response::new).map_err(|error| status::grpc(&error))
            })*
        })*

        impl Operation {
            /// Validates a request that came as JSON.
            pub(super) fn check_json(&'static self, input: Map<String, Value>) -> Result<(), Error> {
                match self.key {
                    $($(concat!(stringify!($service), ".", stringify!($method)) => {
                        reading::check_json::<pb::$input>(self, input)
                    })*)*
                    key => Err(Error::invalid("operation", format_args!("there is no {key}"))),
                }
            }

            /// Validates a request that came as protobuf.
            pub(super) fn check_protobuf(&'static self, bytes: &[u8]) -> Result<(), Error> {
                match self.key {
                    $($(concat!(stringify!($service), ".", stringify!($method)) => {
                        reading::check_protobuf::<pb::$input>(self, bytes)
                    })*)*
                    key => Err(Error::invalid("operation", format_args!("there is no {key}"))),
                }
            }
        }

        impl Contextd {
            /// Executes an operation with JSON input and output. `asking` matters only if an agent calls.
            pub async fn call(
                &self,
                operation: &Operation,
                caller: Caller,
                input: Map<String, Value>,
                asking: Asking,
            ) -> Result<Value, Error> {
                let handler = self.handler().await?;
                match operation.key {
                    $($(concat!(stringify!($service), ".", stringify!($method)) => {
                        handler.run_json::<pb::$input>(caller, input, asking).await
                    })*)*
                    key => Err(Error::invalid("operation", format_args!("there is no {key}"))),
                }
            }
        }
    };
}

operations! {
    SafeExec: SafeExecService {
        Bash bash Post "/api/v1/safeexec/bash" safe_bash BASH BashRequest -> BashResponse = exec;
        Read read Post "/api/v1/safeexec/read" safe_read READ ReadRequest -> ReadResponse = read_file;
        Write write Post "/api/v1/safeexec/write" safe_write WRITE WriteRequest -> WriteResponse = write_file;
    }
    Session: SessionService {
        Start start Post "/api/v1/session/start" session_start SESSION_START
            SessionStartRequest -> SessionStartResponse = start_session;
        End end Post "/api/v1/session/end" session_end SESSION_END
            SessionEndRequest -> SessionEndResponse = end_session;
    }
    Ref: RefService {
        GetContent get_content Post "/api/v1/ref/content" ref_get REF_GET
            RefGetContentRequest -> RefGetContentResponse = ref_content;
    }
    Memory: MemoryService {
        Search search Post "/api/v1/memory/search" memory_search MEMORY_SEARCH
            MemorySearchRequest -> MemorySearchResponse = search_memories;
        Store store Post "/api/v1/memory/store" memory_store MEMORY_STORE
            MemoryStoreRequest -> MemoryStoreResponse = store_memory;
        Feedback feedback Post "/api/v1/memory/feedback" memory_feedback MEMORY_FEEDBACK
            MemoryFeedbackRequest -> MemoryFeedbackResponse = judge_memory;
        Get get Get "/api/v1/memory/{id}" memory_get BY_ID MemoryGetRequest -> MemoryGetResponse = get_memory;
    }
    Checkpoint: CheckpointService {
        Save save Post "/api/v1/checkpoint/save" checkpoint_save CHECKPOINT_SAVE
            CheckpointSaveRequest -> CheckpointSaveResponse = save_checkpoint;
        List list Post "/api/v1/checkpoint/list" checkpoint_list CHECKPOINT_LIST
            CheckpointListRequest -> CheckpointListResponse = list_checkpoints;
        Resume resume Post "/api/v1/checkpoint/resume" checkpoint_resume CHECKPOINT_RESUME
            CheckpointResumeRequest -> CheckpointResumeResponse = resume_checkpoint;
    }
    Policy: PolicyService {
        Check check Post "/api/v1/policy/check" policy_check POLICY_CHECK
            PolicyCheckRequest -> PolicyCheckResponse = check_policy;
        List list Post "/api/v1/policy/list" policy_list POLICY_LIST
            PolicyListRequest -> PolicyListResponse = list_policies;
        Get get Get "/api/v1/policy/{id}" policy_get BY_ID PolicyGetRequest -> PolicyGetResponse = get_policy;
    }
    Skill: SkillService {
        List list Post "/api/v1/skill/list" skill_list LIST SkillListRequest -> SkillListResponse = list_skills;
        Get get Get "/api/v1/skill/{id}" skill_get BY_ID SkillGetRequest -> SkillGetResponse = get_skill;
        Create create Post "/api/v1/skill" skill_create SKILL_CREATE
            SkillCreateRequest -> SkillCreateResponse = create_skill;
        Update update Put "/api/v1/skill/{id}" skill_update SKILL_UPDATE
            SkillUpdateRequest -> SkillUpdateResponse = update_skill;
        Delete delete Delete "/api/v1/skill/{id}" skill_delete BY_ID
            SkillDeleteRequest -> SkillDeleteResponse = delete_skill;
    }
    Agent: AgentService {
        List list Post "/api/v1/agent/list" agent_list LIST AgentListRequest -> AgentListResponse = list_agents;
        Get get Get "/api/v1/agent/{id}" agent_get BY_ID AgentGetRequest -> AgentGetResponse = get_agent;
        Create create Post "/api/v1/agent" agent_create AGENT_CREATE
            AgentCreateRequest -> AgentCreateResponse = create_agent;
        Update update Put "/api/v1/agent/{id}" agent_update AGENT_UPDATE
            AgentUpdateRequest -> AgentUpdateResponse = update_agent;
        Delete delete Delete "/api/v1/agent/{id}" agent_delete BY_ID
            AgentDeleteRequest -> AgentDeleteResponse = delete_agent;
    }
    Remediation: RemediationService {
        Search search Post "/api/v1/remediation/search" remediation_search REMEDIATION_SEARCH
            RemediationSearchRequest -> RemediationSearchResponse = search_remediations;
        Record record Post "/api/v1/remediation/record" remediation_record REMEDIATION_RECORD
            RemediationRecordRequest -> RemediationRecordResponse = record_remediation;
    }
}
