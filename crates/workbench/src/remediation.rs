//! Known errors and their solutions. Two errors are equal if they differ only in paths, numbers, addresses
//! and the like; similar ones are found by their words. Must be given scrubbed text only.

use domain::{Error, Timestamp};
use rusqlite::OptionalExtension as _;
use serde::{Deserialize, Serialize};
use storage::{Durability, Store};

use crate::place::WorkPlace;
use crate::tables;
use crate::vectors::{self, Vector, similarity};

/// The prefix of every id.
const PREFIX: &str = "rem_";

/// Less similar errors are not related.
const SIMILARITY_MIN: f32 = 0.25;

/// An error and its solution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remediation {
    pub title: String,
    pub problem: String,
    pub solution: String,
    pub more: RemediationDetails,
}

/// Further details.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemediationDetails {
    pub symptoms: Vec<String>,
    pub root_cause: String,
    pub code_diff: String,
    pub affected_files: Vec<String>,
}

/// A solution that may apply.
#[derive(Clone, Debug, PartialEq)]
pub struct RemediationMatch {
    pub id: String,
    pub title: String,
    pub problem: String,
    pub solution: String,
    pub occurrences: i64,
    /// 1: the same error.
    pub similarity: f32,
}

/// All remediations of the daemon.
#[derive(Clone, Debug)]
pub struct Remediations {
    store: Store,
}

impl Remediations {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Records a remediation. A known error keeps its id and gets the newer solution.
    pub async fn record(&self, place: &WorkPlace, new: Remediation, now: Timestamp) -> Result<String, Error> {
        let (id, place) = (tables::new_id(PREFIX)?, place.clone());
        let pattern = pattern(&new.problem);
        let vector = vector(&pattern, &new.title, &new.more.symptoms.join(" "));
        let body = serde_json::to_string(&new.more).unwrap_or_default();
        self.store
            .write(Durability::Synced, move |connection| {
                let known: Option<String> = connection
                    .query_row(
                        "SELECT id FROM bench_remediations WHERE tenant = ?1 AND project = ?2 AND pattern = ?3",
                        [&place.tenant, &place.project, &pattern],
                        |row| row.get(0),
                    )
                    .optional()?;
                if let Some(known) = known {
                    connection.execute(
                        "UPDATE bench_remediations SET title = ?2, problem = ?3, solution = ?4, body = ?5,
                            occurrences = occurrences + 1, updated_at = ?6, model = ?7, vector = ?8 WHERE id = ?1",
                        rusqlite::params![
                            known,
                            new.title,
                            new.problem,
                            new.solution,
                            body,
                            now.0,
                            vectors::MODEL,
                            vector.to_bytes()
                        ],
                    )?;
                    return Ok(known);
                }
                connection.execute(
                    "INSERT INTO bench_remediations (id, tenant, project, title, problem, pattern, solution, body,
                        occurrences, created_at, updated_at, model, vector)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?9, ?10, ?11)",
                    rusqlite::params![
                        id,
                        place.tenant,
                        place.project,
                        new.title,
                        new.problem,
                        pattern,
                        new.solution,
                        body,
                        now.0,
                        vectors::MODEL,
                        vector.to_bytes()
                    ],
                )?;
                Ok(id)
            })
            .await
    }

    /// Returns remediations for an error, the most similar first; among equals those of this project first.
    pub async fn search(
        &self,
        place: &WorkPlace,
        error: &str,
        context: &str,
        limit: usize,
    ) -> Result<Vec<RemediationMatch>, Error> {
        let pattern = pattern(error);
        let wanted = vector(&pattern, context, "");
        let place = place.clone();
        self.store
            .read(move |connection| {
                let mut select = connection.prepare_cached(
                    "SELECT id, title, problem, solution, occurrences, pattern, project, vector, key
                     FROM bench_remediations WHERE tenant = ?1 AND model = ?2",
                )?;
                let mut rows = select.query([&place.tenant, vectors::MODEL])?;
                let mut found: Vec<(RemediationMatch, bool, i64, String)> = Vec::new();
                while let Some(row) = rows.next()? {
                    let (known, project): (String, String) = (row.get(5)?, row.get(6)?);
                    let bytes: Vec<u8> = row.get(7)?;
                    let similarity = match Vector::from_bytes(&bytes) {
                        _ if known == pattern => 1.0,
                        // Only an equal error may reach 1.
                        Some(vector) => similarity(wanted.numbers(), vector.numbers()).min(0.99),
                        None => continue,
                    };
                    if similarity >= SIMILARITY_MIN {
                        let cure = RemediationMatch {
                            id: row.get(0)?,
                            title: row.get(1)?,
                            problem: row.get(2)?,
                            solution: row.get(3)?,
                            occurrences: row.get(4)?,
                            similarity,
                        };
                        found.push((cure, project == place.project, row.get(8)?, known));
                    }
                }
                found.sort_by(|(one, one_ours, one_key, _), (other, other_ours, other_key, _)| {
                    let by_similarity = other.similarity.total_cmp(&one.similarity);
                    by_similarity.then(other_ours.cmp(one_ours)).then(one_key.cmp(other_key))
                });
                // The same error with the same solution in two projects is listed once.
                let mut told = std::collections::BTreeSet::new();
                found.retain(|(cure, _, _, pattern)| told.insert((pattern.clone(), cure.solution.clone())));
                Ok(found.into_iter().map(|(cure, ..)| cure).take(limit).collect())
            })
            .await
    }
}

fn vector(pattern: &str, context: &str, symptoms: &str) -> Vector {
    Vector::of(&[(pattern, 1.0), (context, 0.3), (symptoms, 0.3)])
}

/// Returns an error without the parts that differ between machines and runs.
pub fn pattern(error: &str) -> String {
    let mut words = Vec::new();
    for word in error.split_whitespace() {
        // Before brackets are removed: `[::1]:80` needs its own.
        if is_address(&word.trim_end_matches([',', ';', ':', '.', ')']).to_lowercase()) {
            words.push("<address>".to_owned());
            continue;
        }
        let core = word.trim_matches(|letter: char| "\"'`()[]{}<>,;:.!?".contains(letter));
        if core.is_empty() {
            continue;
        }
        words.push(normal(core));
    }
    words.dedup();
    words.join(" ")
}

/// Replaces what differs between equal errors, such as paths, addresses and numbers, by placeholders.
fn normal(word: &str) -> String {
    let lower = word.to_lowercase();
    if is_address(&lower) {
        return "<address>".to_owned();
    }
    if is_path(word) {
        return "<path>".to_owned();
    }
    if lower.len() >= 7
        && lower.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        && has_digit(&lower)
    {
        return "<id>".to_owned();
    }
    // `line:12:5`, `0.3s`, `port=8080`: the words around numbers matter, the numbers do not.
    let mut normal = String::with_capacity(lower.len());
    let mut in_number = false;
    for letter in lower.chars() {
        if letter.is_ascii_digit() {
            if !in_number {
                normal.push('#');
            }
            in_number = true;
        } else {
            in_number = in_number && letter == '.';
            if !in_number {
                normal.push(letter);
            }
        }
    }
    normal
}

fn has_digit(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit())
}

/// `0x7ffd…`, `127.0.0.1:5432`, `[::1]:80`.
fn is_address(word: &str) -> bool {
    if let Some(hex) = word.strip_prefix("0x") {
        return !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    let host = word.split('/').next().unwrap_or_default();
    host.parse::<std::net::SocketAddr>().is_ok() || host.parse::<std::net::IpAddr>().is_ok()
}

/// `/a/b`, `./a`, `~/a`, `C:\a`, `src/main.rs:3:7`.
fn is_path(word: &str) -> bool {
    let drive = word.as_bytes().get(1..3) == Some(b":\\");
    let rooted = word.starts_with('/') && word.len() > 1;
    let below = word.starts_with("./") || word.starts_with("../") || word.starts_with("~/");
    let file = word.contains('/')
        && !word.contains("://")
        && word.rsplit('/').next().is_some_and(|name| name.contains('.'));
    drive || rooted || below || file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_numbers_and_addresses_do_not_matter() {
        let one =
            "thread 'main' panicked at src/main.rs:12:5: index 7 out of bounds for /opt/ann/x at 0x7ffd12";
        let other =
            "thread 'main' panicked at lib/a/b.rs:999:1: index 42 out of bounds for /srv/data at 0xdeadbeef";
        assert_eq!(pattern(one), pattern(other));
        assert_eq!(pattern("connect to 127.0.0.1:5432 failed"), pattern("connect to 10.0.0.7:6432 failed"));
        assert_eq!(pattern("timed out after 30.5s"), pattern("timed out after 2s"));
        assert_ne!(pattern("permission denied"), pattern("file not found"));
    }

    #[tokio::test]
    async fn cures_are_found_by_similarity_and_known_errors_counted() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("daemon.db")).unwrap();
        crate::tables::prepare(&store).await.unwrap();
        let all = Remediations::new(store);
        let place = WorkPlace { project: "/p".into(), ..WorkPlace::default() };
        let new = |problem: &str, solution: &str| Remediation {
            title: "t".into(),
            problem: problem.into(),
            solution: solution.into(),
            more: RemediationDetails::default(),
        };
        let refused = "connect to 127.0.0.1:5432 failed: Connection refused";
        let first = all.record(&place, new(refused, "start postgres"), Timestamp(1)).await.unwrap();
        let second = all
            .record(&place, new("no space left on device: /var/x", "free space"), Timestamp(2))
            .await
            .unwrap();
        let again = "connect to 10.1.1.1:6000 failed: Connection refused";
        assert_eq!(all.record(&place, new(again, "start it"), Timestamp(3)).await.unwrap(), first);
        let found =
            all.search(&place, "connect to [::1]:5432 failed: Connection refused", "", 5).await.unwrap();
        assert_eq!((found[0].id.as_str(), found[0].occurrences), (first.as_str(), 2));
        assert!((found[0].similarity - 1.0).abs() < f32::EPSILON);
        let found =
            all.search(&place, "write failed: no space left on disk device /tmp/9", "", 5).await.unwrap();
        assert_eq!(found[0].id, second);
        assert!(all.search(&place, "zebra crossing", "", 5).await.unwrap().is_empty());
    }
}
