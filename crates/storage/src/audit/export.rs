//! Exports the audit for another machine: JSON lines, each entry exactly as it was hashed, then a signature
//! over the hash of the last one. Anyone with the public key can verify it without the daemon and without its
//! secret.

use domain::{Error, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::keys::{hex, is_signed, unhex};
use super::{Audit, chain};
use host::clock;

/// The first line.
#[derive(Serialize, Deserialize)]
struct Opening {
    obey_audit_export: u32,
    /// The export contains the entries after this number.
    after_seq: u64,
    /// The hash of that entry; empty if there is none.
    before_hash: String,
    public_key: String,
}

/// An entry.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    seq: u64,
    #[serde(borrow)]
    entry: &'a RawValue,
    hash: String,
}

/// The last line.
#[derive(Serialize, Deserialize)]
struct Closing {
    proof: Proof,
}

#[derive(Serialize, Deserialize)]
struct Proof {
    entries: u64,
    last_seq: u64,
    head: String,
    at: Timestamp,
    signature: String,
}

const VERSION: u32 = 1;

/// Returns the text that is signed.
fn statement(opening: &Opening, proof: &Proof) -> Vec<u8> {
    let Opening { after_seq, before_hash, .. } = opening;
    let Proof { entries, last_seq, head, at, .. } = proof;
    format!("obey audit export {VERSION}\n{after_seq} {before_hash} {entries} {last_seq} {head} {}\n", at.0)
        .into_bytes()
}

/// An export in progress.
pub struct Export {
    audit: Audit,
    opening: Opening,
    /// The last entry returned.
    at: (u64, Vec<u8>),
    until: u64,
    entries: u64,
    stage: ExportStage,
}

enum ExportStage {
    Opening,
    Entries,
    Over,
}

impl Audit {
    /// Starts an export of the entries after a number, up to the newest one now.
    pub async fn export(&self, after_seq: u64) -> Result<Export, Error> {
        let wanted = i64::try_from(after_seq).unwrap_or(i64::MAX);
        let (before, until) = self
            .store
            .read(move |connection| {
                let sql = "SELECT coalesce(max(seq), 0) FROM audit";
                let until = connection.query_row(sql, [], |row| row.get::<_, i64>(0))?;
                let sql = "SELECT hash FROM audit WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1";
                let mut select = connection.prepare(sql)?;
                let mut rows = select.query_map([wanted], |row| row.get::<_, Vec<u8>>(0))?;
                Ok((rows.next().transpose()?.unwrap_or_default(), until))
            })
            .await?;
        let until = u64::try_from(until).unwrap_or(0);
        let after_seq = after_seq.min(until);
        let opening = Opening {
            obey_audit_export: VERSION,
            after_seq,
            before_hash: hex(&before),
            public_key: hex(&self.shared.keys.public()),
        };
        let at = (after_seq, before);
        Ok(Export { audit: self.clone(), opening, at, until, entries: 0, stage: ExportStage::Opening })
    }
}

impl Export {
    /// Returns the next lines; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<String>>, Error> {
        match self.stage {
            ExportStage::Opening => {
                self.stage = ExportStage::Entries;
                Ok(Some(vec![text(&self.opening)]))
            }
            ExportStage::Entries if self.at.0 < self.until => {
                let mut rows = self.audit.after(self.at.0, None).await?;
                rows.retain(|row| row.seq <= self.until);
                if rows.is_empty() {
                    self.until = self.at.0;
                }
                let mut lines = Vec::with_capacity(rows.len());
                for row in rows {
                    // A body that is not JSON was damaged. Its hash will not match, and the export must show
                    // that.
                    let body = RawValue::from_string(row.body).unwrap_or_else(|_| RawValue::NULL.to_owned());
                    lines.push(text(&Line { seq: row.seq, entry: &body, hash: hex(&row.hash) }));
                    self.entries += 1;
                    self.at = (row.seq, row.hash);
                }
                Ok(Some(lines))
            }
            ExportStage::Entries => {
                self.stage = ExportStage::Over;
                let mut proof = Proof {
                    entries: self.entries,
                    last_seq: self.at.0,
                    head: hex(&self.at.1),
                    at: clock::now(),
                    signature: String::new(),
                };
                proof.signature = hex(&self.audit.shared.keys.sign(&statement(&self.opening, &proof)));
                Ok(Some(vec![text(&Closing { proof })]))
            }
            ExportStage::Over => Ok(None),
        }
    }
}

fn text(line: &impl Serialize) -> String {
    serde_json::to_string(line).unwrap_or_default()
}

/// The result of verifying an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportVerdict {
    pub entries: u64,
    pub first_seq: u64,
    pub last_seq: u64,
    pub head: String,
    /// The key that signed it, in hexadecimal.
    pub public_key: String,
    /// The line of the first problem, and why; line 0 means the export as a whole.
    pub broken: Option<(u64, String)>,
}

/// Verifies an export. With a key, it must have been signed by that key; without one, the key named in the
/// export is used, which proves only that it was not changed since.
pub fn verify_export<E: std::fmt::Display>(
    lines: impl Iterator<Item = Result<String, E>>,
    key: Option<&str>,
) -> ExportVerdict {
    let mut verdict = ExportVerdict::default();
    if let Err((line, reason)) = check_lines(lines, key, &mut verdict) {
        verdict.broken = Some((line, reason));
    }
    verdict
}

fn check_lines<E: std::fmt::Display>(
    lines: impl Iterator<Item = Result<String, E>>,
    key: Option<&str>,
    verdict: &mut ExportVerdict,
) -> Result<(), (u64, String)> {
    let mut opening: Option<Opening> = None;
    let mut hash = Vec::new();
    let mut closed = false;
    for (number, line) in (1..).zip(lines) {
        let line = line.map_err(|error| (number, format!("it cannot be read: {error}")))?;
        let wrong = |what: &str| (number, what.to_owned());
        if closed {
            return Err(wrong("there is more after the proof"));
        }
        let Some(begun) = &opening else {
            let first: Opening =
                serde_json::from_str(&line).map_err(|_| wrong("this is no export of the audit"))?;
            if first.obey_audit_export != VERSION {
                return Err(wrong("it was written by a newer obey; upgrade this one"));
            }
            if key.is_some_and(|key| !key.trim().eq_ignore_ascii_case(&first.public_key)) {
                return Err(wrong("it was signed with another key"));
            }
            hash = unhex(&first.before_hash).ok_or_else(|| wrong("its first hash cannot be read"))?;
            verdict.first_seq = first.after_seq + 1;
            verdict.last_seq = first.after_seq;
            verdict.public_key.clone_from(&first.public_key);
            opening = Some(first);
            continue;
        };
        if let Ok(Closing { proof }) = serde_json::from_str(&line) {
            let public = unhex(&begun.public_key).unwrap_or_default();
            let signature = unhex(&proof.signature).unwrap_or_default();
            if !is_signed(&public, &statement(begun, &proof), &signature) {
                return Err(wrong("the signature does not fit"));
            }
            if (proof.entries, proof.last_seq, &proof.head)
                != (verdict.entries, verdict.last_seq, &hex(&hash))
            {
                return Err(wrong("entries are missing before the proof"));
            }
            verdict.head = proof.head;
            closed = true;
            continue;
        }
        let entry: Line<'_> = serde_json::from_str(&line).map_err(|_| wrong("it is no entry"))?;
        if entry.seq != verdict.last_seq + 1 {
            return Err((number, format!("entry {} is missing", verdict.last_seq + 1)));
        }
        hash = chain::hash(&hash, entry.entry.get());
        if hex(&hash) != entry.hash {
            return Err((
                number,
                format!("the hash of entry {} does not fit its text and those before", entry.seq),
            ));
        }
        verdict.last_seq = entry.seq;
        verdict.entries += 1;
    }
    if closed { Ok(()) } else { Err((0, "the proof is missing: the end was cut off".to_owned())) }
}
