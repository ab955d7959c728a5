//! Rows of campaigns, festivals and the reports about them.

use domain::{Mode, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::limits;

/// A registered project root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignRow {
    pub id: String,
    pub name: String,
    pub path: String,
    pub description: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The identity of the root's folder; empty if it is not pinned yet.
    pub root_pin: String,
    /// Whether secrets are taken out of the events of its sessions; nothing: as the daemon is configured.
    pub scrub: Option<bool>,
    /// The mode of its sessions that are created without one; nothing: as the daemon is configured.
    pub mode: Option<Mode>,
}

/// Changes of a campaign's settings; nothing leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CampaignChange {
    pub scrub: Option<bool>,
    /// `Some(None)`: from now on as the daemon is configured.
    pub mode: Option<Option<Mode>>,
}

/// A festival as last reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FestivalRow {
    pub campaign_id: String,
    pub id: String,
    pub name: String,
    pub status: String,
    pub phase: String,
    pub total_tasks: i32,
    pub completed_tasks: i32,
    pub current_task: String,
    pub current_agent: String,
    pub updated_at: Timestamp,
}

/// A report as received.
#[derive(Clone, Debug, Default)]
pub struct CampaignReport {
    pub campaign_id: String,
    pub festival_id: String,
    pub event_type: String,
    pub payload: String,
    pub source: String,
    pub at: Timestamp,
}

/// The result of storing a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportOutcome {
    pub event_id: i64,
    /// The same was reported a moment ago; nothing was stored.
    pub repeated: bool,
}

const SELECT: &str =
    "SELECT id, name, path, description, created_at, updated_at, root_pin, scrub, mode FROM campaigns";

/// Inserts a campaign or updates the one with the same id.
pub fn put(connection: &Connection, campaign: &CampaignRow) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO campaigns (id, name, path, description, created_at, updated_at, root_pin, scrub, mode)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (id) DO UPDATE SET name = ?2, path = ?3, description = ?4, updated_at = ?6,
             root_pin = ?7, scrub = ?8, mode = ?9",
        params![
            campaign.id,
            campaign.name,
            campaign.path,
            campaign.description,
            campaign.created_at.0,
            campaign.updated_at.0,
            campaign.root_pin,
            campaign.scrub,
            campaign.mode.map(Mode::name)
        ],
    )?;
    Ok(())
}

/// Stores the identity of a campaign's root, unless it is already stored.
pub fn pin(connection: &Connection, id: &str, root_pin: &str) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE campaigns SET root_pin = ?2 WHERE id = ?1 AND root_pin = ''",
        params![id, root_pin],
    )?;
    Ok(())
}

/// Changes settings of a campaign; returns it as it is then, or nothing if there is no such campaign.
pub fn change(
    connection: &Connection,
    id: &str,
    change: CampaignChange,
    at: Timestamp,
) -> rusqlite::Result<Option<CampaignRow>> {
    let Some(mut row) = find(connection, id)?.filter(|row| row.id == id) else { return Ok(None) };
    row.scrub = change.scrub.or(row.scrub);
    row.mode = change.mode.unwrap_or(row.mode);
    row.updated_at = at;
    put(connection, &row)?;
    Ok(Some(row))
}

/// Returns a campaign by id, else by name.
pub fn find(connection: &Connection, id_or_name: &str) -> rusqlite::Result<Option<CampaignRow>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE id = ?1 OR name = ?1 ORDER BY id = ?1 DESC LIMIT 1"))?
        .query_row([id_or_name], campaign_row)
        .optional()
}

/// Returns the campaign with this root.
pub fn find_by_path(connection: &Connection, path: &str) -> rusqlite::Result<Option<CampaignRow>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE path = ?1"))?
        .query_row([path], campaign_row)
        .optional()
}

/// Returns every campaign by name.
pub fn list(connection: &Connection) -> rusqlite::Result<Vec<CampaignRow>> {
    connection.prepare_cached(&format!("{SELECT} ORDER BY name"))?.query_map([], campaign_row)?.collect()
}

/// Removes a campaign; its sessions and reports stay.
pub fn remove(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM campaigns WHERE id = ?1", [id])?;
    Ok(())
}

/// Returns how many sessions of a campaign have not ended.
pub fn active_sessions(connection: &Connection, id: &str) -> rusqlite::Result<i32> {
    connection.query_row(
        "SELECT count(*) FROM session_records WHERE campaign_id = ?1 AND status NOT IN ('STOPPED', 'FAILED')",
        [id],
        |row| row.get(0),
    )
}

/// Stores a report unless the same one arrived within the window. `entity` is its subject.
pub fn report(
    connection: &Connection,
    entity: &str,
    report: &CampaignReport,
) -> rusqlite::Result<ReportOutcome> {
    let event = format!("{}\n{}", report.event_type, report.payload);
    let window = i64::try_from(limits::DEDUP_WINDOW.as_micros()).unwrap_or(i64::MAX);
    let repeated = connection
        .query_row(
            "SELECT event_id FROM recent_events WHERE entity_key = ?1 AND event = ?2 AND abs(?3 - created_at) <= ?4",
            params![entity, event, report.at.0, window],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(event_id) = repeated {
        return Ok(ReportOutcome { event_id, repeated: true });
    }
    connection.execute(
        "INSERT INTO events (campaign_id, festival_id, event_type, payload, source, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            report.campaign_id,
            report.festival_id,
            report.event_type,
            report.payload,
            report.source,
            report.at.0
        ],
    )?;
    let event_id = connection.last_insert_rowid();
    connection.execute(
        "INSERT OR REPLACE INTO recent_events (entity_key, event, event_id, created_at) VALUES (?1, ?2, ?3, ?4)",
        params![entity, event, event_id, report.at.0],
    )?;
    Ok(ReportOutcome { event_id, repeated: false })
}

/// Inserts a festival or updates it from a report; empty and zero fields leave the known values.
pub fn put_festival(connection: &Connection, festival: &FestivalRow) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO festivals (campaign_id, id, name, status, phase, total_tasks, completed_tasks, current_task,
                                current_agent, created_at, updated_at)
         VALUES (?1, ?2, ?3, coalesce(nullif(?4, ''), 'planned'), ?5, ?6, ?7, ?8, ?9, ?10, ?10)
         ON CONFLICT (campaign_id, id) DO UPDATE SET
             name = coalesce(nullif(?3, ''), name), status = coalesce(nullif(?4, ''), status),
             phase = coalesce(nullif(?5, ''), phase), total_tasks = max(?6, total_tasks),
             completed_tasks = max(?7, completed_tasks), current_task = coalesce(nullif(?8, ''), current_task),
             current_agent = coalesce(nullif(?9, ''), current_agent), updated_at = ?10",
        params![
            festival.campaign_id,
            festival.id,
            festival.name,
            festival.status,
            festival.phase,
            festival.total_tasks,
            festival.completed_tasks,
            festival.current_task,
            festival.current_agent,
            festival.updated_at.0
        ],
    )?;
    Ok(())
}

/// Returns the festivals of one campaign or of all.
pub fn festivals(connection: &Connection, campaign_id: Option<&str>) -> rusqlite::Result<Vec<FestivalRow>> {
    connection
        .prepare_cached(
            "SELECT campaign_id, id, name, status, phase, total_tasks, completed_tasks, current_task, current_agent,
                    updated_at
             FROM festivals WHERE ?1 IS NULL OR campaign_id = ?1 ORDER BY campaign_id, id",
        )?
        .query_map([campaign_id], |row| {
            Ok(FestivalRow {
                campaign_id: row.get(0)?,
                id: row.get(1)?,
                name: row.get(2)?,
                status: row.get(3)?,
                phase: row.get(4)?,
                total_tasks: row.get(5)?,
                completed_tasks: row.get(6)?,
                current_task: row.get(7)?,
                current_agent: row.get(8)?,
                updated_at: Timestamp(row.get(9)?),
            })
        })?
        .collect()
}

fn campaign_row(row: &Row<'_>) -> rusqlite::Result<CampaignRow> {
    Ok(CampaignRow {
        id: row.get(0)?,
        name: row.get(1)?,
        path: row.get(2)?,
        description: row.get(3)?,
        created_at: Timestamp(row.get(4)?),
        updated_at: Timestamp(row.get(5)?),
        root_pin: row.get(6)?,
        scrub: row.get(7)?,
        // A mode of a newer version must not become one that asks less.
        mode: row.get::<_, Option<String>>(8)?.map(|name| Mode::parse(&name).unwrap_or_default()),
    })
}
