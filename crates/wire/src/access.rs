//! The access table: for every method of every protocol who may call it, about which session, with what effect and what an
//! agent needs for it. Made by `build.rs` from the option `obey.v1.access` and from `proto/access.toml`. Data only: what a
//! row means for a caller is decided elsewhere.

/// How a call travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Grpc,
    Rest,
    Tool,
    Acp,
}

/// Who may call. See `proto/obey/v1/access.proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Anyone,
    User,
    Agent,
    Bridge,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    Reads,
    Acts,
    Administers,
}

/// What an agent's call needs beside being allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    Permission,
    EditPermission,
    /// What whoever registered the tool declares.
    Declared,
}

/// Which session a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionIn {
    None,
    /// The calling agent's own, whatever the request says.
    Caller,
    /// The one that a field of the request names; the numbers lead to it in a protobuf message.
    Field {
        name: &'static str,
        path: &'static [u32],
    },
}

/// Whether agents find it among their tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is no tool.
    NoTool,
    Offered,
    Withheld,
}

/// What a key of roz.v1 may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiScope {
    ReadTasks,
    WriteTasks,
    ReadHosts,
    WriteHosts,
    ReadStreams,
    WriteStreams,
    /// Whatever a key may do at all.
    Admin,
}

impl ApiScope {
    pub const ALL: [Self; 7] = [
        Self::ReadTasks,
        Self::WriteTasks,
        Self::ReadHosts,
        Self::WriteHosts,
        Self::ReadStreams,
        Self::WriteStreams,
        Self::Admin,
    ];

    /// Returns the published name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadTasks => "ReadTasks",
            Self::WriteTasks => "WriteTasks",
            Self::ReadHosts => "ReadHosts",
            Self::WriteHosts => "WriteHosts",
            Self::ReadStreams => "ReadStreams",
            Self::WriteStreams => "WriteStreams",
            Self::Admin => "Admin",
        }
    }

    /// Reads a published name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub protocol: Protocol,
    /// `package.Service/Method`, `VERB /path`, the name of a tool, or a method of ACP.
    pub method: &'static str,
    pub who: Who,
    pub session: SessionIn,
    pub effect: Effect,
    pub needs: Needs,
    pub offer: Offer,
    /// Whether it may come through a relay.
    pub tunnel: bool,
    /// Whether the client sends a stream of messages.
    pub client_streams: bool,
    /// The scope with which an API key may call it; none: no key may.
    pub scope: Option<ApiScope>,
}

include!(concat!(env!("OUT_DIR"), "/access.rs"));
