//! Lists over several pages: which pages hold the wanted rows, and when there are no more. Addresses of further pages
//! are made here; those that a server names are not followed.

use domain::Error;
use reqwest::Url;
use reqwest::header::{HeaderMap, LINK};
use serde_json::Value;

use crate::http::Api;
use crate::limits::{LIST_DEFAULT, LIST_MAX, OFFSET_MAX, PAGE_ROWS_MAX, PAGES_MAX};
use crate::types::Listing;

/// The rows that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) limit: u32,
    pub(crate) offset: u32,
}

/// Says whether a row counts.
pub(crate) type RowFilter = fn(&Value) -> bool;

/// How rows are found in an answer.
pub(crate) struct RowSource<'a> {
    /// The field that holds the rows; `None`: the answer itself is the list.
    pub(crate) field: Option<&'a str>,
    /// Rows that do not count, such as pull requests among issues.
    pub(crate) keep: Option<RowFilter>,
}

impl Window {
    /// Checks what a caller asks for.
    pub(crate) fn new(limit: u32, offset: u32) -> Result<Self, Error> {
        if limit > LIST_MAX {
            return Err(Error::invalid(
                "limit",
                format_args!("must be at most {LIST_MAX}; use offset for more"),
            ));
        }
        if offset > OFFSET_MAX {
            return Err(Error::invalid("offset", format_args!("must be at most {OFFSET_MAX}")));
        }
        Ok(Self { limit: if limit == 0 { LIST_DEFAULT } else { limit }, offset })
    }

    /// Returns the size of pages with which the fewest are read.
    fn page_rows(self) -> u32 {
        let fits = self.limit <= PAGE_ROWS_MAX && self.offset.is_multiple_of(self.limit);
        if fits { self.limit } else { PAGE_ROWS_MAX }
    }
}

/// Reads the wanted rows.
pub(crate) async fn rows(
    api: &Api,
    url: &Url,
    source: &RowSource<'_>,
    window: Window,
) -> Result<Listing<Value>, Error> {
    let mut page_rows = window.page_rows();
    // Rows of our own choice are counted by us, so those that are skipped must be seen.
    let mut first = if source.keep.is_some() { 1 } else { window.offset / page_rows + 1 };
    let mut skip = if source.keep.is_some() { window.offset } else { window.offset % page_rows };
    let mut page = first;
    let mut reading = Reading::default();
    for _ in 0..PAGES_MAX {
        let mut at = url.clone();
        at.query_pairs_mut()
            .append_pair("per_page", &page_rows.to_string())
            .append_pair("page", &page.to_string());
        let mut answer = api.get(&at).await?;
        let given = header(&answer.headers, "x-per-page").filter(|given| (1..page_rows).contains(given));
        if let Some(given) = given.filter(|_| page == first && source.keep.is_none()) {
            // The server has smaller pages than were asked for: the first one is elsewhere.
            page_rows = given;
            first = window.offset / page_rows + 1;
            skip = window.offset % page_rows;
            if first != page {
                page = first;
                continue;
            }
        }
        if source.keep.is_none() {
            reading.told = header(&answer.headers, "x-total")
                .or_else(|| answer.body["total_count"].as_u64().and_then(|total| u32::try_from(total).ok()));
        }
        let found = match source.field {
            Some(field) => answer.body.get_mut(field).map(Value::take).unwrap_or_default(),
            None => answer.body,
        };
        let Value::Array(found) = found else {
            return Err(api.unavailable(&format!(
                "it sent something else than a list; is it a {}?",
                api.instance.kind.title()
            )));
        };
        let next = next_page(&answer.headers, page);
        let kept = found.into_iter().filter(|row| source.keep.is_none_or(|keep| keep(row)));
        if reading.take(kept, &mut skip, window.limit) {
            break;
        }
        reading.is_more = next.is_some();
        match next {
            Some(next) if reading.items.len() < window.limit as usize => page = next,
            _ => break,
        }
    }
    Ok(reading.listing(window.offset))
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    items: Vec<Value>,
    is_more: bool,
    told: Option<u32>,
    /// Rows that were skipped.
    skipped: u32,
}

impl Reading {
    /// Takes the rows of a page; true: there are enough and at least one more is known.
    fn take(&mut self, rows: impl Iterator<Item = Value>, skip: &mut u32, limit: u32) -> bool {
        for row in rows {
            if *skip > 0 {
                *skip -= 1;
                self.skipped += 1;
            } else if self.items.len() < limit as usize {
                self.items.push(row);
            } else {
                self.is_more = true;
                return true;
            }
        }
        false
    }

    fn listing(self, offset: u32) -> Listing<Value> {
        let shown = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        // Behind the end nothing is known of how many there are, but what was seen.
        let known = if shown == 0 { self.skipped.min(offset) } else { offset.saturating_add(shown) };
        let total = self.told.unwrap_or_else(|| known.saturating_add(u32::from(self.is_more)));
        Listing { items: self.items, total }
    }
}

/// Returns the number of the next page; `None`: this is the last.
fn next_page(headers: &HeaderMap, page: u32) -> Option<u32> {
    if headers.contains_key("x-next-page") {
        // Empty on the last page. A server that leads back would be read for ever.
        return header(headers, "x-next-page").filter(|next| *next > page);
    }
    let links = headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok());
    let is_next = |link: &str| link.split(',').any(|entry| entry.contains("rel=\"next\""));
    links.into_iter().any(is_next).then(|| page.saturating_add(1))
}

fn header(headers: &HeaderMap, name: &str) -> Option<u32> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_large_as_the_rows_that_are_wanted() {
        let rows = |limit, offset| Window::new(limit, offset).unwrap().page_rows();
        assert_eq!(
            [rows(0, 0), rows(100, 200), rows(7, 21), rows(7, 20), rows(300, 0)],
            [20, 100, 7, 100, 100]
        );
        assert!(Window::new(LIST_MAX + 1, 0).is_err() && Window::new(1, OFFSET_MAX + 1).is_err());
    }

    #[test]
    fn the_next_page_is_a_later_one() {
        let of = |name: &'static str, value: &'static str| {
            next_page(&[(name.parse().unwrap(), value.parse().unwrap())].into_iter().collect(), 3)
        };
        assert_eq!(of("x-next-page", "4"), Some(4));
        assert_eq!(of("x-next-page", ""), None);
        assert_eq!(of("x-next-page", "3"), None);
        assert_eq!(of("link", "<https://x/?page=9>; rel=\"next\", <https://x/>; rel=\"first\""), Some(4));
        assert_eq!(of("link", "<https://x/>; rel=\"first\""), None);
        assert_eq!(of("x-total", "1"), None);
    }

    #[test]
    fn an_unknown_total_is_what_is_known_and_one_more() {
        let reading = |items: usize, told, is_more| Reading {
            items: vec![Value::Null; items],
            is_more,
            told,
            skipped: 0,
        };
        assert_eq!(reading(20, None, true).listing(40).total, 61);
        assert_eq!(reading(20, None, false).listing(40).total, 60);
        assert_eq!(reading(20, Some(500), true).listing(40).total, 500);
        assert_eq!(reading(0, None, false).listing(40).total, 0);
    }
}
