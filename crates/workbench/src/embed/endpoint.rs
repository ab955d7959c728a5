//! Vectors from an endpoint compatible with OpenAI's `/embeddings`. The key is sent and never shown.

use std::sync::OnceLock;

use domain::Error;
use reqwest::Client;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use serde_json::json;

use super::failed;
use crate::limits::{EMBED_ANSWER_MAX, EMBED_CONNECT_WAIT, EMBED_WAIT, EMBED_WIDTH_MAX};
use crate::vectors::Vector;

/// An endpoint and its model.
#[derive(Debug)]
pub struct Endpoint {
    url: String,
    model: String,
    key: Option<HeaderValue>,
    name: String,
    /// Created on first use: loading the machine's certificates takes a while.
    client: OnceLock<Result<Client, String>>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Made>,
}

#[derive(Deserialize)]
struct Made {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl Endpoint {
    /// `url` is the base, such as `https://api.openai.com/v1`; `key` may be empty for an endpoint that needs
    /// none.
    pub fn new(url: &str, model: &str, key: &str) -> Result<Self, Error> {
        let url = url.trim_end_matches('/').to_owned();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Error::invalid("memory.embeddings_url", "must begin with http:// or https://"));
        }
        if model.is_empty() {
            return Err(Error::invalid("memory.embeddings_model", "is needed beside memory.embeddings_url"));
        }
        let key = if key.is_empty() {
            None
        } else {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
                Error::invalid("memory.embeddings_key_env", "holds characters that no key has")
            })?;
            value.set_sensitive(true);
            Some(value)
        };
        let name = format!("endpoint:{model}@{url}");
        Ok(Self { url, model: model.to_owned(), key, name, client: OnceLock::new() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the HTTP client, which is built on first use. It follows no redirects.
    fn client(&self) -> Result<Client, Error> {
        let made = self.client.get_or_init(|| {
            // An error means that a provider is already installed, which is fine.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let built = Client::builder()
                .connect_timeout(EMBED_CONNECT_WAIT)
                .timeout(EMBED_WAIT)
                .redirect(reqwest::redirect::Policy::none())
                .user_agent(concat!("obey/", env!("CARGO_PKG_VERSION")))
                .build();
            built.map_err(|error| error.to_string())
        });
        made.clone().map_err(|error| failed(&error))
    }

    /// Requests the vectors of the texts and checks that there is one for each.
    pub(super) async fn make(&self, texts: Vec<String>) -> Result<Vec<Vector>, Error> {
        let wanted = texts.len();
        let body = json!({"model": self.model, "input": texts, "encoding_format": "float"}).to_string();
        let mut request =
            self.client()?.post(format!("{}/embeddings", self.url)).header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        let answer =
            request.body(body).send().await.map_err(|error| self.failed(&error.without_url().to_string()))?;
        let status = answer.status();
        let body = self.whole(answer).await?;
        if !status.is_success() {
            let said: String = String::from_utf8_lossy(&body).chars().take(200).collect();
            return Err(self.failed(&format!("{status}: {said}")));
        }
        let mut answer: Answer =
            serde_json::from_slice(&body).map_err(|error| self.failed(&error.to_string()))?;
        if answer.data.iter().all(|made| made.index.is_some()) {
            answer.data.sort_by_key(|made| made.index);
        }
        let width = answer.data.first().map_or(0, |made| made.embedding.len());
        let fits = |made: &Made| {
            made.embedding.len() == width && made.embedding.iter().all(|number| number.is_finite())
        };
        if answer.data.len() != wanted
            || width == 0
            || width > EMBED_WIDTH_MAX
            || !answer.data.iter().all(fits)
        {
            return Err(self.failed("the answer does not hold one vector for each text"));
        }
        Ok(answer.data.iter().map(|made| Vector::rounded(&made.embedding)).collect())
    }

    /// Reads the whole body, up to the size limit.
    async fn whole(&self, mut answer: reqwest::Response) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        while let Some(piece) =
            answer.chunk().await.map_err(|error| self.failed(&error.without_url().to_string()))?
        {
            if body.len() + piece.len() > EMBED_ANSWER_MAX {
                return Err(self.failed("the answer is too long"));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    fn failed(&self, what: &str) -> Error {
        failed(&format!("{}: {what}", self.url))
    }
}
