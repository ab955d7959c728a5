//! Embedders turn texts into vectors: from the words themselves, which needs nothing; with a model in a
//! folder of the user's; or with an endpoint compatible with OpenAI's. Each embedder has a name, which is
//! stored with every vector: vectors of different embedders are not comparable and are never compared.

mod endpoint;
mod folder;
pub mod setup;

#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;
use std::sync::Arc;

use domain::{Error, ErrorCode};

use crate::vectors::{self, Vector};
pub use endpoint::Endpoint;
pub use folder::Folder;

/// An embedder. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub enum Embedder {
    #[default]
    Words,
    Folder(Arc<Folder>),
    Endpoint(Arc<Endpoint>),
}

/// A text in parts, each with its weight for embedders that support weights.
pub(crate) type Weighted = Vec<(String, f32)>;

impl Embedder {
    /// Loads a model from a folder: `config.json`, `model.safetensors` and `vocab.txt` of a BERT encoder.
    pub fn from_folder(path: &Path) -> Result<Self, Error> {
        Ok(Self::Folder(Arc::new(Folder::open(path)?)))
    }

    /// Returns the name that is stored with each vector.
    pub fn name(&self) -> &str {
        match self {
            Self::Words => vectors::MODEL,
            Self::Folder(folder) => folder.name(),
            Self::Endpoint(endpoint) => endpoint.name(),
        }
    }

    /// Returns the vectors of texts, one for each, in their order.
    pub(crate) async fn make(&self, texts: Vec<Weighted>) -> Result<Vec<Vector>, Error> {
        match self {
            Self::Words => Ok(texts.iter().map(|text| of_words(text)).collect()),
            Self::Folder(folder) => {
                let folder = Arc::clone(folder);
                let work = move || texts.iter().map(|text| of_model(&folder, text)).collect();
                tokio::task::spawn_blocking(work).await.map_err(|error| failed(&error.to_string()))
            }
            Self::Endpoint(endpoint) => endpoint.make(texts.iter().map(|text| joined(text)).collect()).await,
        }
    }
}

/// What a vector of words counts beside that of a model, which counts 1. The two err in different places. Chosen with
/// `corpus/paraphrases/tuning.txt`.
const WORDS_BESIDE_MODEL: f32 = 0.6;

/// Returns the vector of a model with that of the words behind it, so that the similarity is the weighted sum of both.
fn of_model(folder: &Folder, text: &[(String, f32)]) -> Vector {
    let (meant, written) = (folder.make(&joined(text)), of_words(text));
    let meant = meant.numbers().iter().map(|number| f32::from(*number));
    let written = written.numbers().iter().map(|number| f32::from(*number) * WORDS_BESIDE_MODEL.sqrt());
    Vector::rounded(&meant.chain(written).collect::<Vec<f32>>())
}

fn of_words(text: &[(String, f32)]) -> Vector {
    let parts: Vec<(&str, f32)> = text.iter().map(|(part, weight)| (part.as_str(), *weight)).collect();
    Vector::of(&parts)
}

/// Joins the parts; models do their own weighting.
fn joined(text: &[(String, f32)]) -> String {
    let parts: Vec<&str> =
        text.iter().map(|(part, _)| part.as_str()).filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn failed(detail: &str) -> Error {
    Error::new(ErrorCode::ConnectionLost, "no vectors were made").with_detail(detail)
}
