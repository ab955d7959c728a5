//! What machines have exchanged with their clients today, and the bound of it, in the relay's file.

use std::collections::HashMap;

use domain::Error;
use rusqlite::params;

use super::{Store, failed};

/// The setting of the bound.
const BYTES_PER_DAY: &str = "bytes_per_day";

impl Store {
    /// Returns the bytes that one machine may exchange in a day; 0: there is no bound.
    pub(crate) fn bytes_per_day(&self) -> Result<u64, Error> {
        Ok(self.setting(BYTES_PER_DAY)?.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    pub(crate) fn set_bytes_per_day(&self, bytes: u64) -> Result<(), Error> {
        self.set(BYTES_PER_DAY, &bytes.to_string())
    }

    /// Returns the bytes of a day, by machine.
    pub(crate) fn traffic_of(&self, day: i64) -> Result<HashMap<String, u64>, Error> {
        let db = self.locked();
        let read = || -> rusqlite::Result<HashMap<String, u64>> {
            let mut statement = db.prepare("SELECT machine_id, bytes FROM traffic WHERE day = ?1")?;
            let rows = statement.query_map([day], |row| {
                Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0)))
            })?;
            rows.collect()
        };
        read().map_err(|error| failed(&error))
    }

    /// Keeps the bytes of a day. Those of a machine that was removed go with it.
    pub(crate) fn save_traffic(&self, day: i64, bytes: &[(String, u64)]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut db = self.locked();
        let mut write = || -> rusqlite::Result<()> {
            let all = db.transaction()?;
            for (machine_id, bytes) in bytes {
                all.execute(
                    "INSERT OR REPLACE INTO traffic (machine_id, day, bytes) SELECT id, ?2, ?3 FROM machines WHERE id = ?1",
                    params![machine_id, day, i64::try_from(*bytes).unwrap_or(i64::MAX)],
                )?;
            }
            all.commit()
        };
        write().map_err(|error| failed(&error))
    }
}
