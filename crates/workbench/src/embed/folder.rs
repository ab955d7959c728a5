//! Vectors from a model in a folder, in the layout of sentence-transformers: a BERT encoder (`config.json`,
//! `model.safetensors`), its vocabulary (`vocab.txt`) and how its outputs become one vector
//! (`1_Pooling/config.json`). Everything is read once; nothing is downloaded and no program is run.

mod encoder;
mod pieces;
mod tensors;

use std::path::Path;

use domain::{Error, ErrorCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::limits::{MODEL_FILE_MAX, MODEL_TEXT_FILE_MAX};
use crate::vectors::{self, Vector};
use encoder::Encoder;
use pieces::Pieces;
use tensors::Tensors;

/// A loaded model.
#[derive(Debug)]
pub struct Folder {
    name: String,
    pieces: Pieces,
    encoder: Encoder,
    /// Use the first output as the vector, instead of the mean of all.
    first: bool,
    /// The maximum number of word pieces the model supports.
    longest: usize,
}

/// The required parts of `config.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Shape {
    model_type: String,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    vocab_size: usize,
    #[serde(default = "usual_act")]
    hidden_act: String,
    #[serde(default = "usual_epsilon")]
    layer_norm_eps: f32,
    #[serde(default = "usual_positions")]
    position_embedding_type: String,
}

fn usual_act() -> String {
    "gelu".to_owned()
}

fn usual_epsilon() -> f32 {
    1e-12
}

fn usual_positions() -> String {
    "absolute".to_owned()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pooling {
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sentences {
    max_seq_length: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Tokenizer {
    do_lower_case: bool,
}

impl Default for Tokenizer {
    fn default() -> Self {
        Self { do_lower_case: true }
    }
}

impl Folder {
    /// Loads a folder; the error names the invalid file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let shape: Shape =
            json(&path.join("config.json"))?.ok_or_else(|| missing(&path.join("config.json")))?;
        check(&shape).map_err(|why| unfit(&path.join("config.json"), &why))?;
        let pooling: Option<Pooling> = json(&path.join("1_Pooling/config.json"))?;
        let pooling = pooling.unwrap_or(Pooling { pooling_mode_mean_tokens: true, ..Pooling::default() });
        if pooling.pooling_mode_cls_token == pooling.pooling_mode_mean_tokens {
            let why = "only the mean of all outputs or the first one can be taken";
            return Err(unfit(&path.join("1_Pooling/config.json"), why));
        }
        let sentences: Sentences = json(&path.join("sentence_bert_config.json"))?.unwrap_or_default();
        let tokenizer: Tokenizer = json(&path.join("tokenizer_config.json"))?.unwrap_or_default();
        let words = path.join("vocab.txt");
        let pieces = Pieces::new(&text(&words)?, tokenizer.do_lower_case)
            .ok_or_else(|| unfit(&words, "the words [CLS], [SEP] and [UNK] are not in it"))?;
        let weights = path.join("model.safetensors");
        let tensors = Tensors::read(&weights, MODEL_FILE_MAX).map_err(|why| unfit(&weights, &why))?;
        let called =
            path.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy().into_owned());
        // The words are a part of the vector, see `Embedder::make`.
        let name = format!("folder:{called}:{}+{}", tensors.fingerprint(), vectors::MODEL);
        let longest = sentences.max_seq_length.unwrap_or(usize::MAX).min(shape.max_position_embeddings);
        let encoder = Encoder::new(&shape, tensors).map_err(|why| unfit(&weights, &why))?;
        Ok(Self { name, pieces, encoder, first: pooling.pooling_mode_cls_token, longest })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the vector of a text. Text beyond the model's maximum length is cut off.
    pub(super) fn make(&self, text: &str) -> Vector {
        let pieces = self.pieces.of(text, self.longest);
        let outputs = self.encoder.run(&pieces);
        let width = self.encoder.width();
        if self.first {
            return Vector::rounded(&outputs[..width]);
        }
        let mut sums = vec![0f32; width];
        for output in outputs.chunks_exact(width) {
            for (sum, number) in sums.iter_mut().zip(output) {
                *sum += number;
            }
        }
        Vector::rounded(&sums)
    }
}

/// Checks that the model is one this encoder can compute.
fn check(shape: &Shape) -> Result<(), String> {
    if shape.model_type != "bert" {
        return Err(format!("model_type is {:?}, only \"bert\" is known", shape.model_type));
    }
    if shape.hidden_act != "gelu" {
        return Err(format!("hidden_act is {:?}, only \"gelu\" is known", shape.hidden_act));
    }
    if shape.position_embedding_type != "absolute" {
        return Err("only absolute positions are known".to_owned());
    }
    let heads = shape.num_attention_heads;
    if heads == 0 || shape.hidden_size == 0 || !shape.hidden_size.is_multiple_of(heads) {
        return Err("hidden_size is not a multiple of num_attention_heads".to_owned());
    }
    if shape.max_position_embeddings < 3 || shape.vocab_size == 0 {
        return Err("there is no room for a text".to_owned());
    }
    Ok(())
}

/// Reads a small text file.
fn text(path: &Path) -> Result<String, Error> {
    let size = std::fs::metadata(path).map_err(|error| unread(path, &error))?.len();
    if size > MODEL_TEXT_FILE_MAX {
        return Err(unfit(path, "it is too large"));
    }
    std::fs::read_to_string(path).map_err(|error| unread(path, &error))
}

/// Reads a JSON file; `None` if it does not exist.
fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    if !path.exists() {
        return Ok(None);
    }
    serde_json::from_str(&text(path)?).map(Some).map_err(|error| unfit(path, &error.to_string()))
}

fn missing(path: &Path) -> Error {
    unfit(path, "it is not there")
}

fn unread(path: &Path, error: &std::io::Error) -> Error {
    unfit(path, &error.to_string())
}

fn unfit(path: &Path, why: &str) -> Error {
    let message = format!("the model of memory.model_folder cannot be used: {}: {why}", path.display());
    Error::new(ErrorCode::ConfigInvalid, message)
}
