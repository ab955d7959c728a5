//! Fetches the small sentence model for memories: from its usual place, a mirror, or a folder. Its files are pinned by their
//! hashes, so that it does not matter where they come from; a download that was cut off is resumed. Must not know any
//! configuration.

use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode};
use reqwest::StatusCode;
use reqwest::header::RANGE;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::limits::{EMBED_CONNECT_WAIT, MODEL_CHUNK_WAIT};

/// A file of a model.
#[derive(Clone, Copy, Debug)]
pub struct ModelFile {
    pub name: &'static str,
    pub bytes: u64,
    /// In hexadecimal.
    pub sha256: &'static str,
}

/// The model that `obey memory setup` fetches.
pub const MODEL: &str = "all-MiniLM-L6-v2";

/// Where it comes from unless something else is given.
pub const SOURCE: &str = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/main";

/// Its files.
pub const FILES: &[ModelFile] = &[
    ModelFile {
        name: "vocab.txt",
        bytes: 231_508,
        sha256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    },
    ModelFile {
        name: "model.safetensors",
        bytes: 90_868_376,
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
];

/// Files that are the same for everybody and small enough to be written. The first one completes the model: it comes last.
const SETTINGS: &[(&str, &str)] = &[
    (
        "config.json",
        r#"{"model_type": "bert", "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
 "intermediate_size": 1536, "max_position_embeddings": 512, "vocab_size": 30522, "hidden_act": "gelu",
 "layer_norm_eps": 1e-12, "position_embedding_type": "absolute"}
"#,
    ),
    ("sentence_bert_config.json", "{\"max_seq_length\": 256, \"do_lower_case\": false}\n"),
];

/// Returns the folder of the model in the daemon's data.
pub fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("models").join(MODEL)
}

/// Whether the model was fetched.
pub fn is_set_up(data_dir: &Path) -> bool {
    folder(data_dir).join(SETTINGS[0].0).is_file()
}

/// Fetches files from a folder, the folder of a file or an address into a folder, and completes the model there. `progress` gets
/// a file's name, the bytes that are there and those there will be.
pub async fn fetch(
    files: &[ModelFile],
    from: &str,
    to: &Path,
    mut progress: impl FnMut(&str, u64, u64),
) -> Result<(), Error> {
    tokio::fs::create_dir_all(to).await.map_err(|error| failed(&to.display().to_string(), &error))?;
    for file in files {
        let target = to.join(file.name);
        if hash_of(&target).await.is_ok_and(|hash| hash == file.sha256) {
            progress(file.name, file.bytes, file.bytes);
            continue;
        }
        let part = to.join(format!("{}.part", file.name));
        if from.starts_with("http://") || from.starts_with("https://") {
            let url = format!("{}/{}", from.trim_end_matches('/'), file.name);
            download(&url, &part, file, &mut progress).await?;
        } else {
            let path = Path::new(from.strip_prefix("file://").unwrap_or(from));
            // Whoever names one of the files means the folder that has them all.
            let source = if path.is_file() { path.with_file_name(file.name) } else { path.join(file.name) };
            let shown = source.display().to_string();
            tokio::fs::copy(&source, &part).await.map_err(|error| failed(&shown, &error))?;
            progress(file.name, file.bytes, file.bytes);
        }
        let hash = hash_of(&part).await.map_err(|error| failed(file.name, &error))?;
        if hash != file.sha256 {
            // The next attempt begins anew: what is there leads nowhere.
            let _ = tokio::fs::remove_file(&part).await;
            let text = format!(
                "from: {} is not the expected file: its SHA-256 is {hash}, not {}",
                file.name, file.sha256
            );
            return Err(Error::new(ErrorCode::InvalidArgument, text));
        }
        tokio::fs::rename(&part, &target).await.map_err(|error| failed(file.name, &error))?;
    }
    for (name, text) in SETTINGS.iter().rev() {
        tokio::fs::write(to.join(name), text).await.map_err(|error| failed(name, &error))?;
    }
    Ok(())
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("from: {what}: {error}"))
}

async fn hash_of(path: &Path) -> std::io::Result<String> {
    let mut file = tokio::fs::File::open(path).await?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer).await? {
            0 => return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            len => hash.update(&buffer[..len]),
        }
    }
}

/// Downloads a file behind what is there of it already.
async fn download(
    url: &str,
    part: &Path,
    file: &ModelFile,
    progress: &mut impl FnMut(&str, u64, u64),
) -> Result<(), Error> {
    let wrong = |error: &dyn std::fmt::Display| failed(url, error);
    // An error means that a provider is already installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .connect_timeout(EMBED_CONNECT_WAIT)
        .read_timeout(MODEL_CHUNK_WAIT)
        .user_agent(concat!("obey/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| wrong(&error))?;
    let mut there = tokio::fs::metadata(part).await.map_or(0, |meta| meta.len());
    if there >= file.bytes {
        there = 0;
    }
    let mut request = client.get(url);
    if there > 0 {
        request = request.header(RANGE, format!("bytes={there}-"));
    }
    let mut answer = request.send().await.map_err(|error| wrong(&error))?;
    match answer.status() {
        StatusCode::PARTIAL_CONTENT => {}
        // A server that cannot resume sends everything.
        StatusCode::OK => there = 0,
        status => return Err(wrong(&format!("the server answers {status}"))),
    }
    let mut options = tokio::fs::OpenOptions::new();
    options.create(true).write(true).truncate(there == 0).append(there > 0);
    let mut out = options.open(part).await.map_err(|error| wrong(&error))?;
    while let Some(chunk) =
        answer.chunk().await.map_err(|error| wrong(&format!("{error}; run it again to resume")))?
    {
        there += chunk.len() as u64;
        if there > file.bytes {
            return Err(wrong(&format!("is longer than {} bytes", file.bytes)));
        }
        out.write_all(&chunk).await.map_err(|error| wrong(&error))?;
        progress(file.name, there, file.bytes);
    }
    out.sync_all().await.map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests;
