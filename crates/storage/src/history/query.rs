//! Reading the full-text index: what people type becomes an expression of the index, and what it finds becomes hits.

use domain::Timestamp;
use rusqlite::{Connection, params};

use super::PassageKind;
use crate::limits;

/// What is looked for.
#[derive(Clone, Debug)]
pub struct PassageQuery {
    /// An expression made by [`match_expression`].
    pub expression: String,
    pub session_key: Option<i64>,
    /// Empty: all.
    pub kinds: Vec<PassageKind>,
    pub since: Option<Timestamp>,
    pub limit: usize,
}

/// A passage that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassageHit {
    pub session_key: i64,
    pub seq: u64,
    pub kind: PassageKind,
    pub at: Timestamp,
    /// What was found is between U+0001 and U+0002.
    pub snippet: String,
}

/// Turns what people type into an expression of the index: words that must all occur, words in quotes in this order, and a
/// star at the end of a word for its beginning. Everything else has no meaning to the index. Nothing where there is no word.
pub fn match_expression(typed: &str) -> Option<String> {
    let mut terms = Vec::new();
    for (index, part) in typed.split('"').enumerate() {
        if index % 2 == 1 {
            terms.push((part, false));
        } else {
            terms.extend(part.split_whitespace().map(|word| match word.strip_suffix('*') {
                Some(beginning) => (beginning, true),
                None => (word, false),
            }));
        }
    }
    let searchable = |text: &str| text.chars().any(char::is_alphanumeric);
    let terms: Vec<String> = terms
        .into_iter()
        .filter(|(text, _)| searchable(text))
        .take(limits::SEARCH_TERMS_MAX)
        .map(|(text, is_beginning)| {
            let text: String = text.chars().filter(|char| !char.is_control()).collect();
            format!("\"{}\"{}", text.trim(), if is_beginning { "*" } else { "" })
        })
        .collect();
    (!terms.is_empty()).then(|| terms.join(" "))
}

/// Returns passages that match, newest first, at most one more than the limit.
pub fn search(connection: &Connection, query: &PassageQuery) -> rusqlite::Result<Vec<PassageHit>> {
    let kinds: Vec<i64> = query.kinds.iter().map(|kind| *kind as i64).collect();
    let kinds = (!kinds.is_empty()).then(|| serde_json::Value::from(kinds).to_string());
    let mut select = connection.prepare_cached(
        "SELECT passages.session_key, passages.seq, passages.kind, passages.id,
                snippet(passage_texts, 0, char(1), char(2), '…', 24)
         FROM passage_texts JOIN passages ON passages.id = passage_texts.rowid
         WHERE passage_texts MATCH ?1 AND passage_texts.rowid >= ?2
           AND (?3 IS NULL OR passages.session_key = ?3)
           AND (?4 IS NULL OR passages.kind IN (SELECT value FROM json_each(?4)))
         ORDER BY passage_texts.rowid DESC LIMIT ?5",
    )?;
    let since = query.since.map_or(0, |since| since.0);
    let limit = query.limit.saturating_add(1) as i64;
    let rows =
        select.query_map(params![query.expression, since, query.session_key, kinds, limit], |row| {
            Ok(PassageKind::of(row.get(2)?).map(|kind| PassageHit {
                session_key: row.get(0).unwrap_or_default(),
                seq: row.get::<_, i64>(1).unwrap_or_default() as u64,
                kind,
                at: Timestamp(row.get(3).unwrap_or_default()),
                snippet: row.get(4).unwrap_or_default(),
            }))
        })?;
    rows.filter_map(Result::transpose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_has_no_other_meaning_than_its_words() {
        for (typed, wanted) in [
            ("cart total", Some("\"cart\" \"total\"")),
            ("\"the cart\" tot*", Some("\"the cart\" \"tot\"*")),
            ("NEAR(a b) OR -c", Some("\"NEAR(a\" \"b)\" \"OR\" \"-c\"")),
            ("body:secret", Some("\"body:secret\"")),
            ("a\"b", Some("\"a\" \"b\"")),
            ("  * - \"\" ", None),
            ("", None),
        ] {
            assert_eq!(match_expression(typed).as_deref(), wanted, "{typed:?}");
        }
    }
}
