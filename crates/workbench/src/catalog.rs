//! Skills and agents: instructions and agent definitions, stored by name within a scope. One table holds
//! both; each kind defines the content of its entries. Must be given scrubbed text only.

use domain::{Error, ErrorCode, Timestamp};
use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use storage::{Durability, Store};

use crate::place::{Scope, WorkPlace};
use crate::tables;

/// A kind of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogKind {
    Skill,
    Agent,
}

impl CatalogKind {
    /// Returns the name for people and for the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Agent => "agent",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Skill => "skill_",
            Self::Agent => "agent_",
        }
    }
}

/// A stored entry.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogItem<T> {
    pub id: String,
    pub name: String,
    pub scope: String,
    pub body: T,
}

/// All skills and agents of the daemon.
#[derive(Clone, Debug)]
pub struct Catalog {
    store: Store,
}

/// The maximum number of entries in one list.
const LIST_MAX: i64 = 1000;

/// The entries visible from a place: the project's, the team's and the organisation's.
const SEEN: &str = "kind = ?1 AND tenant = ?2 AND (
    scope = 'org' OR (scope = 'team' AND team = ?3) OR (scope = 'project' AND project = ?4))";

impl Catalog {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Adds an entry and returns its id; its name must be new in its scope.
    pub async fn create<T: Serialize>(
        &self,
        kind: CatalogKind,
        place: &WorkPlace,
        scope: Scope,
        name: &str,
        body: &T,
        now: Timestamp,
    ) -> Result<String, Error> {
        let id = tables::new_id(kind.prefix())?;
        let (row, name, body) = (id.clone(), name.to_owned(), text(body));
        let (tenant, team, project) = (
            place.tenant.clone(),
            if scope == Scope::Org { String::new() } else { place.team.clone() },
            if scope == Scope::Project { place.project.clone() } else { String::new() },
        );
        let taken = taken(kind, &name);
        let made = self.store.write(Durability::Synced, move |connection| {
            connection.execute(
                "INSERT INTO bench_catalog VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
                 ON CONFLICT (kind, name, tenant, team, project) DO NOTHING",
                rusqlite::params![row, kind.name(), name, scope.name(), tenant, team, project, body, now.0],
            )
        });
        if made.await? == 0 { Err(taken) } else { Ok(id) }
    }

    /// Lists the entries visible from a place by name, of one scope or of all.
    pub async fn list<T: DeserializeOwned + Send + 'static>(
        &self,
        kind: CatalogKind,
        place: &WorkPlace,
        scope: Option<Scope>,
    ) -> Result<Vec<CatalogItem<T>>, Error> {
        let place = place.clone();
        let rows = self.store.read(move |connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT id, name, scope, body FROM bench_catalog
                 WHERE {SEEN} AND (?5 = '' OR scope = ?5) ORDER BY name, scope LIMIT {LIST_MAX}"
            ))?;
            let scope = scope.map_or("", Scope::name);
            let params = rusqlite::params![kind.name(), place.tenant, place.team, place.project, scope];
            select.query_map(params, read::<T>)?.collect::<rusqlite::Result<Vec<_>>>()
        });
        Ok(rows.await?.into_iter().flatten().collect())
    }

    /// Returns an entry by id or name; among equal names the narrowest scope wins.
    pub async fn get<T: DeserializeOwned + Send + 'static>(
        &self,
        kind: CatalogKind,
        place: &WorkPlace,
        id_or_name: &str,
    ) -> Result<CatalogItem<T>, Error> {
        let (place, wanted) = (place.clone(), id_or_name.to_owned());
        let found = self.store.read(move |connection| find::<T>(connection, kind, &place, &wanted));
        found.await?.ok_or_else(|| tables::unknown("id", kind.name(), id_or_name))
    }

    /// Changes an entry: `change` receives the current entry and returns the new name and body.
    pub async fn update<T, F>(
        &self,
        kind: CatalogKind,
        place: &WorkPlace,
        id_or_name: &str,
        now: Timestamp,
        change: F,
    ) -> Result<(), Error>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce(CatalogItem<T>) -> (String, T) + Send + 'static,
    {
        let (place, wanted) = (place.clone(), id_or_name.to_owned());
        let updated = self.store.write(Durability::Synced, move |connection| {
            let Some(item) = find::<T>(connection, kind, &place, &wanted)? else { return Ok(None) };
            let id = item.id.clone();
            let (name, body) = change(item);
            let mut update = connection.prepare_cached(
                "UPDATE OR IGNORE bench_catalog SET name = ?2, body = ?3, updated_at = ?4 WHERE id = ?1",
            )?;
            let changed = update.execute(rusqlite::params![id, name, text(&body), now.0])?;
            Ok(Some(if changed == 0 { Err(taken(kind, &name)) } else { Ok(()) }))
        });
        updated.await?.ok_or_else(|| tables::unknown("id", kind.name(), id_or_name))?
    }

    /// Removes an entry.
    pub async fn delete(&self, kind: CatalogKind, place: &WorkPlace, id_or_name: &str) -> Result<(), Error> {
        let (place, wanted) = (place.clone(), id_or_name.to_owned());
        let deleted = self.store.write(Durability::Synced, move |connection| {
            let Some(item) = find::<serde_json::Value>(connection, kind, &place, &wanted)? else {
                return Ok(false);
            };
            connection.execute("DELETE FROM bench_catalog WHERE id = ?1", [item.id])?;
            Ok(true)
        });
        if deleted.await? { Ok(()) } else { Err(tables::unknown("id", kind.name(), id_or_name)) }
    }
}

/// Finds an item by id or name; the id takes precedence, then the narrower scope.
fn find<T: DeserializeOwned>(
    connection: &Connection,
    kind: CatalogKind,
    place: &WorkPlace,
    id_or_name: &str,
) -> rusqlite::Result<Option<CatalogItem<T>>> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT id, name, scope, body FROM bench_catalog WHERE {SEEN} AND (id = ?5 OR name = ?5)
         ORDER BY id = ?5 DESC, CASE scope WHEN 'project' THEN 0 WHEN 'team' THEN 1 ELSE 2 END LIMIT 1"
    ))?;
    let params = rusqlite::params![kind.name(), place.tenant, place.team, place.project, id_or_name];
    Ok(select.query_row(params, read::<T>).optional()?.flatten())
}

/// Returns `None` for a body that cannot be parsed: from a later version, or corrupt.
fn read<T: DeserializeOwned>(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<CatalogItem<T>>> {
    let body: String = row.get(3)?;
    let (id, name, scope) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(serde_json::from_str(&body).ok().map(|body| CatalogItem { id, name, scope, body }))
}

fn text<T: Serialize>(body: &T) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

fn taken(kind: CatalogKind, name: &str) -> Error {
    let kind = kind.name();
    Error::new(ErrorCode::InvalidArgument, format!("name: there is a {kind} {name:?} in this scope already"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn catalog() -> (tempfile::TempDir, Catalog) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("daemon.db")).unwrap();
        crate::tables::prepare(&store).await.unwrap();
        (dir, Catalog::new(store))
    }

    fn place(project: &str) -> WorkPlace {
        WorkPlace { tenant: String::new(), team: "t".into(), project: project.into() }
    }

    #[tokio::test]
    async fn entries_are_made_found_changed_and_removed() {
        let (_dir, catalog) = catalog().await;
        let here = place("/p");
        let body = "text".to_owned();
        let id = catalog
            .create(CatalogKind::Skill, &here, Scope::Project, "review", &body, Timestamp(1))
            .await
            .unwrap();
        let again =
            catalog.create(CatalogKind::Skill, &here, Scope::Project, "review", &body, Timestamp(1)).await;
        assert_eq!(again.unwrap_err().code, ErrorCode::InvalidArgument);
        catalog
            .create(CatalogKind::Agent, &here, Scope::Project, "review", &body, Timestamp(1))
            .await
            .unwrap();
        let found: CatalogItem<String> = catalog.get(CatalogKind::Skill, &here, "review").await.unwrap();
        assert_eq!((found.id.as_str(), found.body.as_str()), (id.as_str(), "text"));
        catalog
            .update(CatalogKind::Skill, &here, &id, Timestamp(2), |item: CatalogItem<String>| {
                ("check".into(), item.body + "!")
            })
            .await
            .unwrap();
        let found: CatalogItem<String> = catalog.get(CatalogKind::Skill, &here, "check").await.unwrap();
        assert_eq!(found.body, "text!");
        catalog.delete(CatalogKind::Skill, &here, &id).await.unwrap();
        let gone = catalog.get::<String>(CatalogKind::Skill, &here, &id).await.unwrap_err();
        assert_eq!(gone.code, ErrorCode::ItemNotFound);
    }

    #[tokio::test]
    async fn scopes_say_who_sees_an_entry_and_the_narrowest_wins() {
        let (_dir, catalog) = catalog().await;
        let (here, there) = (place("/p"), place("/q"));
        for (scope, body) in [(Scope::Org, "o"), (Scope::Team, "t"), (Scope::Project, "p")] {
            let body = body.to_owned();
            catalog.create(CatalogKind::Agent, &here, scope, "x", &body, Timestamp(1)).await.unwrap();
        }
        let from_here: CatalogItem<String> = catalog.get(CatalogKind::Agent, &here, "x").await.unwrap();
        let from_there: CatalogItem<String> = catalog.get(CatalogKind::Agent, &there, "x").await.unwrap();
        assert_eq!((from_here.body.as_str(), from_there.body.as_str()), ("p", "t"));
        assert_eq!(catalog.list::<String>(CatalogKind::Agent, &here, None).await.unwrap().len(), 3);
        assert_eq!(
            catalog.list::<String>(CatalogKind::Agent, &there, Some(Scope::Project)).await.unwrap().len(),
            0
        );
    }
}
