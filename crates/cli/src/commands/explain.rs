//! `obey explain`: what an error means and what to do about it. The pages are part of the program, so that it works
//! without a network and without the source.

use domain::ErrorCode;
use serde_json::json;

use cli_args::everyday::ExplainArgs;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::nearest::suggestion;
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

/// The page of each code, from `docs/errors`.
const PAGES: &[(u16, &str)] = include!(concat!(env!("OUT_DIR"), "/error_pages.rs"));

pub(super) fn run(console: &mut Console, args: &ExplainArgs) -> Result<Exit> {
    let Some(typed) = &args.code else { return list(console) };
    let code = find(typed)?;
    let page = page(code);
    if console.out.json {
        let about = json!({
            "code": code.to_string(), "title": code.title(), "retryable": code.retryable(), "page": page,
        });
        console.out.json(&about)?;
    } else {
        console.out.markdown(page)?;
    }
    Ok(Exit::OK)
}

/// Lists every code with its title.
fn list(console: &mut Console) -> Result<Exit> {
    if console.out.json {
        let row = |code: &ErrorCode| json!({"code": code.to_string(), "title": code.title()});
        let codes: Vec<_> = ErrorCode::ALL.iter().map(row).collect();
        console.out.json(&json!({"codes": codes}))?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["CODE", "MEANING"]);
    for code in ErrorCode::ALL {
        table.row(vec![code.to_string(), code.title().to_owned()]);
    }
    super::session::print_table(console, &table)?;
    console.out.note(TextStyle::Dim, "One of them in full: obey explain CODE")?;
    Ok(Exit::OK)
}

/// Finds a code that was typed with or without its prefix.
fn find(typed: &str) -> Result<ErrorCode> {
    let digits = typed.trim().to_uppercase();
    let wanted = format!("OBEY-{}", digits.trim_start_matches("OBEY-"));
    ErrorCode::parse(&wanted).ok_or_else(|| {
        let known: Vec<String> = ErrorCode::ALL.iter().map(ToString::to_string).collect();
        let meant = suggestion(&wanted, known.iter().map(String::as_str));
        Failure::usage(format!("there is no error {wanted}{meant}")).with_hint("all of them: obey explain")
    })
}

/// Returns the page of a code. A code without one, which a test prevents, has its title.
fn page(code: ErrorCode) -> &'static str {
    PAGES.iter().find(|(number, _)| *number == code.number()).map_or_else(|| code.title(), |(_, page)| page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_in_the_program() {
        for code in ErrorCode::ALL {
            assert!(page(*code).contains(&code.to_string()), "{code} lacks a page in docs/errors");
        }
    }

    #[test]
    fn a_code_is_found_with_or_without_its_prefix_and_near_ones_are_suggested() {
        for typed in ["OBEY-2001", "obey-2001", "2001", " 2001 "] {
            assert_eq!(find(typed).unwrap(), ErrorCode::CampaignNotFound, "{typed}");
        }
        let failure = find("OBEY-2009").unwrap_err();
        assert!(failure.message.contains("did you mean OBEY-200"), "{}", failure.message);
        assert_eq!(failure.exit, Exit::USAGE);
    }
}
