//! The client of a Qdrant server that holds the vectors of memories: the requests, and the meaning of its
//! errors. Messages and connection are those of the published client. Nothing readable is sent: only vectors,
//! numbers and fingerprints of names. Knows neither the tables nor when something must be sent.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use domain::{Error, ErrorCode};
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    Condition, CountPointsBuilder, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder,
    DeletePointsBuilder, Distance, FieldType, Filter, PointId, PointStruct, QueryPointsBuilder, Range,
    ScrollPointsBuilder, UpsertPointsBuilder, Value, VectorParamsBuilder,
};
use qdrant_client::{Qdrant, QdrantError};
use sha2::{Digest as _, Sha256};

use crate::limits::{
    CANDIDATES_MAX, QDRANT_BATCH, QDRANT_CONNECT_WAIT, QDRANT_NAME_MAX, QDRANT_PAGE, QDRANT_WAIT,
};

/// The payload fields of a point. All but the numbers are fingerprints.
const STORE: &str = "store";
const TENANT: &str = "tenant";
const TEAM: &str = "team";
const PROJECT: &str = "project";
const OUTCOME: &str = "outcome";
const STANDING: &str = "standing";
const KEY: &str = "key";
const PRINT: &str = "print";

/// gRPC status codes of a server's responses.
const CANCELLED: i32 = 1;
const DEADLINE_EXCEEDED: i32 = 4;
const NOT_FOUND: i32 = 5;
const PERMISSION_DENIED: i32 = 7;
const UNAVAILABLE: i32 = 14;
const UNAUTHENTICATED: i32 = 16;

/// Client messages about the connection, which come under codes that servers use for other errors too.
const CONNECTION: &[&str] = &["Failed to connect", "transport error", "h2 protocol error"];

/// A server and the collection for memories on it.
pub struct QdrantServer {
    client: Qdrant,
    url: String,
    collection: String,
    key_env: String,
    has_key: bool,
}

impl fmt::Debug for QdrantServer {
    /// Without the key.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Server").field("url", &self.url).field("collection", &self.collection).finish()
    }
}

/// A memory as Qdrant stores it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) id: u128,
    /// The memory's row.
    pub(crate) key: i64,
    pub(crate) vector: Vec<f32>,
    pub(crate) marks: PointFilterFields,
}

/// The fields a search filters by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PointFilterFields {
    pub(crate) store: String,
    pub(crate) tenant: String,
    pub(crate) team: String,
    pub(crate) project: String,
    pub(crate) outcome: String,
    /// Grows with confidence and with the time of confirmation: a minimum of it is a minimum of the current
    /// confidence.
    pub(crate) standing: f64,
}

/// Which points may be found; `None`: not filtered by this.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) store: String,
    pub(crate) tenant: Option<String>,
    pub(crate) team: Option<String>,
    pub(crate) project: Option<String>,
    pub(crate) outcome: Option<String>,
    pub(crate) standing: Option<f64>,
}

impl Point {
    /// A fingerprint of all fields, so that an outdated point is recognized by this number alone.
    pub(crate) fn print(&self) -> i64 {
        let mut hash = Sha256::new();
        for number in &self.vector {
            hash.update(number.to_le_bytes());
        }
        let marks = &self.marks;
        for text in [&marks.store, &marks.tenant, &marks.team, &marks.project, &marks.outcome] {
            hash.update(text.as_bytes());
            hash.update([0]);
        }
        hash.update(marks.standing.to_le_bytes());
        hash.update(self.key.to_le_bytes());
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(hash.finalize());
        i64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    fn to_wire(&self) -> PointStruct {
        let marks = &self.marks;
        let texts = [
            (STORE, &marks.store),
            (TENANT, &marks.tenant),
            (TEAM, &marks.team),
            (PROJECT, &marks.project),
            (OUTCOME, &marks.outcome),
        ];
        let mut payload: HashMap<String, Value> =
            texts.into_iter().map(|(name, text)| (name.to_owned(), text.clone().into())).collect();
        payload.insert(STANDING.to_owned(), marks.standing.into());
        payload.insert(KEY.to_owned(), self.key.into());
        payload.insert(PRINT.to_owned(), self.print().into());
        PointStruct { id: Some(id_to_wire(self.id)), payload, vectors: Some(self.vector.clone().into()) }
    }
}

impl Wanted {
    fn to_wire(&self) -> Filter {
        let mut all = vec![Condition::matches(STORE, self.store.clone())];
        for (name, text) in
            [(TENANT, &self.tenant), (TEAM, &self.team), (PROJECT, &self.project), (OUTCOME, &self.outcome)]
        {
            all.extend(text.clone().map(|text| Condition::matches(name, text)));
        }
        all.extend(
            self.standing
                .map(|least| Condition::range(STANDING, Range { gte: Some(least), ..Range::default() })),
        );
        Filter::must(all)
    }
}

/// Returns a fingerprint that replaces a name others need not read.
pub(crate) fn fingerprint(text: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the id of a memory's point; deterministic.
pub(crate) fn id_of(store: &str, memory: &str) -> u128 {
    let hash: [u8; 32] = Sha256::digest(format!("{store}/{memory}").as_bytes()).into();
    hash[..16].iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

impl QdrantServer {
    /// `url` is the server's gRPC address, `key_env` the variable that `key` was read from. Does not connect
    /// yet.
    pub fn new(url: &str, collection: &str, key_env: &str, key: &str) -> Result<Self, Error> {
        let url = url.trim_end_matches('/').to_owned();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(invalid("memory.qdrant_url: must begin with http:// or https://".to_owned()));
        }
        let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        if collection.is_empty() || collection.len() > QDRANT_NAME_MAX || !collection.chars().all(fits) {
            return Err(invalid(format!(
                "memory.qdrant_collection: {collection:?} is no name of up to {QDRANT_NAME_MAX} letters, digits, - and _"
            )));
        }
        // The client's error would contain a key that cannot be sent.
        if !key.chars().all(|letter| letter.is_ascii_graphic()) {
            return Err(invalid("memory.qdrant_key_env: holds characters that no key has".to_owned()));
        }
        let mut config = Qdrant::from_url(&url)
            .timeout(QDRANT_WAIT)
            .connect_timeout(QDRANT_CONNECT_WAIT)
            .skip_compatibility_check();
        config.set_pool_size(1);
        if !key.is_empty() {
            config.set_api_key(key);
        }
        let client = config.build().map_err(|error| invalid(format!("memory.qdrant_url: {error}")))?;
        let has_key = !key.is_empty();
        Ok(Self { client, url, collection: collection.to_owned(), key_env: key_env.to_owned(), has_key })
    }

    /// Returns the server's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the collection for one embedder's vectors; each embedder has its own.
    pub fn collection(&self, embedder: &str) -> String {
        format!("{}-{}", self.collection, fingerprint(embedder))
    }

    /// Returns the server's version.
    pub(crate) async fn version(&self) -> Result<String, Error> {
        Ok(self.with_timeout(self.client.health_check()).await?.version)
    }

    /// Ensures that a collection exists and accepts vectors of this width.
    pub(crate) async fn prepare(&self, collection: &str, width: usize) -> Result<(), Error> {
        if !self.check(collection, Some(width)).await? {
            let vectors = VectorParamsBuilder::new(width as u64, Distance::Cosine);
            let create = CreateCollectionBuilder::new(collection).vectors_config(vectors);
            match self.with_timeout(self.client.create_collection(create)).await {
                Ok(_) => {}
                // Another daemon created it first.
                Err(_) if self.check(collection, Some(width)).await? => {}
                Err(error) => return Err(error),
            }
        }
        for name in [STORE, TENANT, TEAM, PROJECT, OUTCOME] {
            self.index(collection, name, FieldType::Keyword).await?;
        }
        self.index(collection, STANDING, FieldType::Float).await
    }

    /// Whether a collection exists; one that does not accept vectors of this width, if known, is an error.
    pub(crate) async fn check(&self, collection: &str, width: Option<usize>) -> Result<bool, Error> {
        let info = match self.with_timeout(self.client.collection_info(collection)).await {
            Ok(info) => info,
            Err(error) if error.code == ErrorCode::ItemNotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(width) = width else { return Ok(true) };
        let vectors = info.result.and_then(|info| info.config?.params?.vectors_config?.config);
        let found = match vectors {
            Some(Config::Params(params)) => (params.size, params.distance == i32::from(Distance::Cosine)),
            _ => (0, false),
        };
        if found == (width as u64, true) {
            return Ok(true);
        }
        Err(invalid(format!(
            "Qdrant's collection {collection} at {} was made for other vectors ({} numbers, here {width} compared by \
             their angle); remove it, or choose another memory.qdrant_collection",
            self.url, found.0
        )))
    }

    async fn index(&self, collection: &str, name: &str, kind: FieldType) -> Result<(), Error> {
        let index = CreateFieldIndexCollectionBuilder::new(collection, name, kind).wait(true);
        self.with_timeout(self.client.create_field_index(index)).await.map(drop)
    }

    /// Returns the collections of other embedders.
    pub(crate) async fn others(&self, collection: &str) -> Result<Vec<String>, Error> {
        let all = self.with_timeout(self.client.list_collections()).await?;
        let ours = format!("{}-", self.collection);
        let names = all.collections.into_iter().map(|described| described.name);
        Ok(names.filter(|name| name.starts_with(&ours) && name != collection).collect())
    }

    /// Returns all points of a store with their fingerprints.
    pub(crate) async fn prints(&self, collection: &str, store: &str) -> Result<HashMap<u128, i64>, Error> {
        let wanted = Wanted { store: store.to_owned(), ..Wanted::default() };
        let mut found = HashMap::new();
        let mut next: Option<PointId> = None;
        loop {
            let mut scroll = ScrollPointsBuilder::new(collection)
                .filter(wanted.to_wire())
                .limit(QDRANT_PAGE)
                .with_payload(include(PRINT));
            if let Some(from) = next {
                scroll = scroll.offset(from);
            }
            let page = self.with_timeout(self.client.scroll(scroll)).await?;
            for point in page.result {
                // A point without our fingerprint counts as outdated.
                if let Some(id) = point.id.as_ref().and_then(id_from_wire) {
                    found.insert(id, integer(&point.payload, PRINT).unwrap_or_default());
                }
            }
            next = page.next_page_offset;
            if next.is_none() {
                return Ok(found);
            }
        }
    }

    /// Returns the number of points of a store.
    pub(crate) async fn count(&self, collection: &str, store: &str) -> Result<u64, Error> {
        let wanted = Wanted { store: store.to_owned(), ..Wanted::default() };
        let count = CountPointsBuilder::new(collection).filter(wanted.to_wire()).exact(true);
        let answer = self.with_timeout(self.client.count(count)).await?;
        Ok(answer.result.map_or(0, |result| result.count))
    }

    /// Adds or replaces points.
    pub(crate) async fn put(&self, collection: &str, points: &[Point]) -> Result<(), Error> {
        for points in points.chunks(QDRANT_BATCH) {
            let points: Vec<PointStruct> = points.iter().map(Point::to_wire).collect();
            let upsert = UpsertPointsBuilder::new(collection, points).wait(true);
            self.with_timeout(self.client.upsert_points(upsert)).await?;
        }
        Ok(())
    }

    /// Removes points.
    pub(crate) async fn remove(&self, collection: &str, ids: &[u128]) -> Result<(), Error> {
        for ids in ids.chunks(QDRANT_BATCH) {
            let ids: Vec<PointId> = ids.iter().copied().map(id_to_wire).collect();
            let delete = DeletePointsBuilder::new(collection).points(ids).wait(true);
            self.with_timeout(self.client.delete_points(delete)).await?;
        }
        Ok(())
    }

    /// Removes all points of a store.
    pub(crate) async fn clear(&self, collection: &str, store: &str) -> Result<(), Error> {
        let wanted = Wanted { store: store.to_owned(), ..Wanted::default() };
        let delete = DeletePointsBuilder::new(collection).points(wanted.to_wire()).wait(true);
        self.with_timeout(self.client.delete_points(delete)).await.map(drop)
    }

    /// Returns the rows of the most similar memories.
    pub(crate) async fn nearest(
        &self,
        collection: &str,
        vector: Vec<f32>,
        wanted: &Wanted,
        least: f32,
    ) -> Result<Vec<i64>, Error> {
        let query = QueryPointsBuilder::new(collection)
            .query(vector)
            .filter(wanted.to_wire())
            .score_threshold(least)
            .limit(CANDIDATES_MAX as u64)
            .with_payload(include(KEY));
        let found = self.with_timeout(self.client.query(query)).await?;
        Ok(found.result.iter().filter_map(|point| integer(&point.payload, KEY)).collect())
    }

    /// Limits the wait for a response: the client retries a broken connection.
    async fn with_timeout<T>(&self, asked: impl Future<Output = Result<T, QdrantError>>) -> Result<T, Error> {
        let longest: Duration = QDRANT_WAIT + QDRANT_CONNECT_WAIT;
        match tokio::time::timeout(longest, asked).await {
            Ok(answer) => answer.map_err(|error| self.meaning(&error)),
            Err(_) => Err(self.silent("no answer in time")),
        }
    }

    /// Translates a client error for the person who configured the server.
    fn meaning(&self, error: &QdrantError) -> Error {
        let (QdrantError::ResponseError { status } | QdrantError::ResourceExhaustedError { status, .. }) =
            error
        else {
            return self.silent(&error.to_string());
        };
        let said: String = status.message().chars().take(300).collect();
        match i32::from(status.code()) {
            UNAUTHENTICATED | PERMISSION_DENIED => {
                let sent = match (&self.key_env, self.has_key) {
                    (name, true) => format!("the key in {name}"),
                    (name, false) if !name.is_empty() => format!("a call without a key ({name} is not set)"),
                    _ => "a call without a key".to_owned(),
                };
                invalid(format!(
                    "Qdrant at {} does not accept {sent}; set memory.qdrant_key_env to the variable of the daemon's \
                     environment that holds its key",
                    self.url
                ))
                .with_detail(said)
            }
            NOT_FOUND => Error::new(ErrorCode::ItemNotFound, format!("Qdrant at {}: {said}", self.url)),
            CANCELLED | DEADLINE_EXCEEDED | UNAVAILABLE => self.silent(&said),
            _ if CONNECTION.iter().any(|words| said.starts_with(words)) => self.silent(&said),
            _ => self.refused(&said),
        }
    }

    /// Returns the error for a server that does not answer.
    fn silent(&self, detail: &str) -> Error {
        let message = format!(
            "Qdrant at {} does not answer; memory.qdrant_url must be its gRPC address, usually port 6334",
            self.url
        );
        Error::new(ErrorCode::ConnectionLost, message).with_detail(detail)
    }

    fn refused(&self, said: &str) -> Error {
        Error::new(ErrorCode::ConnectionLost, format!("Qdrant at {} refuses: {said}", self.url))
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorCode::ConfigInvalid, message)
}

fn include(name: &str) -> qdrant_client::qdrant::with_payload_selector::SelectorOptions {
    let fields = vec![name.to_owned()];
    qdrant_client::qdrant::with_payload_selector::SelectorOptions::Include(
        qdrant_client::qdrant::PayloadIncludeSelector { fields },
    )
}

fn integer(payload: &HashMap<String, Value>, name: &str) -> Option<i64> {
    match payload.get(name)?.kind {
        Some(Kind::IntegerValue(number)) => Some(number),
        _ => None,
    }
}

/// Qdrant accepts numbers and UUIDs; ours are UUIDs without a meaning.
fn id_to_wire(id: u128) -> PointId {
    let hex = format!("{id:032x}");
    let uuid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
    PointId { point_id_options: Some(PointIdOptions::Uuid(uuid)) }
}

fn id_from_wire(id: &PointId) -> Option<u128> {
    match id.point_id_options.as_ref()? {
        PointIdOptions::Uuid(uuid) => u128::from_str_radix(&uuid.replace('-', ""), 16).ok(),
        PointIdOptions::Num(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point() -> Point {
        let marks = PointFilterFields {
            store: "s".into(),
            tenant: fingerprint("t"),
            team: fingerprint(""),
            project: fingerprint("/home/me/secret-project"),
            outcome: fingerprint("success"),
            standing: 34.5,
        };
        Point { id: id_of("s", "mem_1"), key: 7, vector: vec![1.0, -2.0], marks }
    }

    #[test]
    fn ids_are_read_as_they_were_written() {
        for id in [0, 1, u128::MAX, id_of("store", "mem_x")] {
            assert_eq!(id_from_wire(&id_to_wire(id)), Some(id));
        }
        assert_ne!(id_of("store", "mem_x"), id_of("other", "mem_x"));
    }

    #[test]
    fn every_part_of_a_point_changes_its_fingerprint() {
        let print = point().print();
        assert_eq!(point().print(), print);
        let changes: [fn(&mut Point); 5] = [
            |point| point.vector[1] = 2.0,
            |point| point.key = 8,
            |point| point.marks.standing += 0.1,
            |point| point.marks.project = fingerprint("/other"),
            |point| point.marks.outcome = fingerprint("failure"),
        ];
        for change in changes {
            let mut changed = point();
            change(&mut changed);
            assert_ne!(changed.print(), print);
        }
    }

    #[test]
    fn nothing_readable_is_sent() {
        let sent = format!("{:?}", point().to_wire());
        assert!(!sent.contains("secret-project") && !sent.contains("success"), "{sent}");
    }

    #[test]
    fn settings_that_cannot_be_are_named() {
        let said = |url, collection, key| {
            QdrantServer::new(url, collection, "KEY", key).map(drop).unwrap_err().message
        };
        assert!(said("127.0.0.1:6334", "memories", "").contains("memory.qdrant_url"));
        assert!(said("http://[::1", "memories", "").contains("memory.qdrant_url"));
        assert!(said("http://127.0.0.1:6334", "a/b", "").contains("memory.qdrant_collection"));
        let said = said("http://127.0.0.1:6334", "memories", "geheim\n");
        assert!(said.contains("memory.qdrant_key_env") && !said.contains("geheim"), "{said}");
    }

    #[test]
    fn makers_have_collections_of_their_own() {
        let server = QdrantServer::new("http://127.0.0.1:6334", "memories", "", "").unwrap();
        assert_ne!(server.collection("one"), server.collection("other"));
        assert!(server.collection("one").starts_with("memories-"));
        assert!(!format!("{server:?}").contains("key"));
    }
}
