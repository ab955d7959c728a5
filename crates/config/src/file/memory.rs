//! How memories are searched: the embedder that makes their vectors, and where vectors are kept.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The embedder of memories; nothing set: the words themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// A folder with a model.
    pub model_folder: Option<PathBuf>,
    /// An endpoint compatible with OpenAI's, and its model.
    pub embeddings_url: String,
    pub embeddings_model: String,
    /// The variable that holds the endpoint's key.
    pub embeddings_key_env: String,
    /// A Qdrant server to search: its gRPC address, the prefix of its collections, and the variable that
    /// holds its key.
    pub qdrant_url: String,
    pub qdrant_collection: String,
    pub qdrant_key_env: String,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            model_folder: None,
            embeddings_url: String::new(),
            embeddings_model: String::new(),
            embeddings_key_env: String::new(),
            qdrant_url: String::new(),
            qdrant_collection: "obey-memories".to_owned(),
            qdrant_key_env: String::new(),
        }
    }
}
