//! The name of the column that a value stands in: tables of databases and commands, comma-separated lines, `INSERT` statements. Looks back
//! a bounded way. Decides nothing about names or values.

use super::context::{self, Line};

/// How far back the first line of a table is looked for.
const TABLE_BACK: usize = 480;

/// Returns the name of the column of a value that begins at `value`.
pub(super) fn name(line: Line<'_>, value: usize) -> Option<&[u8]> {
    let before = line.before(value);
    if before.contains(&b'(') {
        return of_insert(before);
    }
    // What stands before the value must be the whole beginning of its line.
    if line.low > 0 && line.text[line.low - 1] != b'\n' {
        return None;
    }
    let sign = *before.iter().find(|byte| matches!(byte, b'|' | b',' | b'\t'))?;
    let index = before.iter().filter(|byte| **byte == sign).count();
    let header = first_line(line, sign)?;
    let cell = header.split(|byte| *byte == sign).nth(index)?.trim_ascii();
    let is_name = |byte: &u8| context::is_name(*byte) || matches!(byte, b' ' | b'"');
    cell.iter().all(is_name).then_some(cell)
}

/// The first of the lines above that have the same sign between their columns.
fn first_line<'t>(line: Line<'t>, sign: u8) -> Option<&'t [u8]> {
    let far = line.low.saturating_sub(TABLE_BACK);
    let mut end = line.low.checked_sub(1)?;
    // Tables drawn with bars have a line under their names; without it the first line is a row.
    let (mut header, mut is_ruled) = (None, sign != b'|');
    while end > far {
        let start = memchr::memrchr(b'\n', &line.text[far..end]).map_or(far, |at| far + at + 1);
        let above = &line.text[start..end];
        let is_rule = !above.is_empty() && above.iter().all(|byte| b"-+|=: \t".contains(byte));
        is_ruled |= is_rule;
        let is_whole = start > far || far == 0;
        if is_whole && above.contains(&sign) && !is_rule {
            header = Some(above);
        } else if !is_rule {
            break;
        }
        let Some(next) = start.checked_sub(1) else { break };
        end = next.max(far);
    }
    header.filter(|_| is_ruled)
}

/// The column of a value in `INSERT INTO t (a, b) VALUES (1, …`.
fn of_insert(before: &[u8]) -> Option<&[u8]> {
    let row = before.iter().rposition(|byte| *byte == b'(')?;
    let head = &before[..row];
    let close = head.iter().rposition(|byte| *byte == b')')?;
    let is_values = head[close..].windows(6).any(|word| word.eq_ignore_ascii_case(b"values"));
    let open = head[..close].iter().rposition(|byte| *byte == b'(').filter(|_| is_values)?;
    let index = before[row..].iter().filter(|byte| **byte == b',').count();
    let cell = head[open + 1..close].split(|byte| *byte == b',').nth(index)?;
    Some(cell.trim_ascii())
}
