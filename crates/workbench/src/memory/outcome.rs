//! How that ended which a memory tells of. Stored and printed as one of four words.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryOutcome {
    Success,
    Failure,
    Mixed,
    #[default]
    Neutral,
}

impl MemoryOutcome {
    const ALL: [Self; 4] = [Self::Success, Self::Failure, Self::Mixed, Self::Neutral];

    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Mixed => "mixed",
            Self::Neutral => "neutral",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == text)
    }
}

impl ToSql for MemoryOutcome {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.name().into())
    }
}

/// Nothing else was ever stored; it would say nothing of an outcome.
impl FromSql for MemoryOutcome {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self::parse(value.as_str()?).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_stored_as_its_name() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        for outcome in MemoryOutcome::ALL {
            let stored: String = connection.query_row("SELECT ?1", [outcome], |row| row.get(0)).unwrap();
            assert_eq!(stored, outcome.name());
            let read: MemoryOutcome = connection.query_row("SELECT ?1", [stored], |row| row.get(0)).unwrap();
            assert_eq!(read, outcome);
        }
    }
}
