//! The review: files, changes, and comments that are sent as one message.

use super::stage::Stage;
use crate::data::{ChangedFile, Request, ReviewLine, Update};

fn file(path: &str) -> ChangedFile {
    ChangedFile { path: path.to_owned(), added: 2, removed: 1, note: String::new() }
}

fn line(mark: char, number: u64, text: &str) -> ReviewLine {
    ReviewLine { mark, number, text: text.to_owned() }
}

fn reviewing() -> Stage {
    let mut stage = Stage::with_journal(140, 40, "");
    stage.requests();
    stage.press("d");
    assert_eq!(stage.requests(), [Request::Diff { session: "sess_cart".to_owned() }]);
    let files = vec![file("src/cart.rs"), file("src/zero.rs")];
    let (session, against) = ("sess_cart".to_owned(), "main".to_owned());
    stage.update(Update::Diff { session, against, files, more: 0 });
    stage
}

fn lines(stage: &mut Stage, path: &str, lines: Vec<ReviewLine>) {
    stage.update(Update::DiffFile { session: "sess_cart".to_owned(), path: path.to_owned(), lines });
}

#[test]
fn comments_on_lines_of_several_files_are_one_message() {
    let mut stage = reviewing();
    let wanted = |path: &str| Request::DiffFile { session: "sess_cart".to_owned(), path: path.to_owned() };
    assert_eq!(stage.requests(), [wanted("src/cart.rs")]);
    stage.shows("cart: changes against main");
    lines(
        &mut stage,
        "src/cart.rs",
        vec![line('@', 7, "line 7"), line('-', 7, "let a = 1;"), line('+', 7, "let b = 1;")],
    );
    stage.shows("let b = 1;");
    stage.press("j");
    stage.press("j");
    stage.press("c");
    stage.type_text("name it total");
    stage.press("enter");
    stage.shows("› name it total");
    stage.shows("1 comment");
    stage.press("]");
    assert_eq!(stage.requests(), [wanted("src/zero.rs")]);
    lines(&mut stage, "src/zero.rs", vec![line('+', 1, "zero")]);
    stage.press("c");
    stage.type_text("why");
    stage.press("enter");
    // Closing loses no comment.
    stage.press("esc");
    stage.press("d");
    stage.requests();
    let files = vec![file("src/cart.rs"), file("src/zero.rs")];
    stage.update(Update::Diff {
        session: "sess_cart".to_owned(),
        against: "main".to_owned(),
        files,
        more: 0,
    });
    lines(
        &mut stage,
        "src/cart.rs",
        vec![line('@', 7, "line 7"), line('-', 7, "let a = 1;"), line('+', 7, "let b = 1;")],
    );
    lines(&mut stage, "src/zero.rs", vec![line('+', 1, "zero")]);
    stage.requests();
    stage.press("s");
    let sent = stage.requests();
    let [Request::Prompt { text, .. }] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(
        text,
        "Comments on your changes:\n\nsrc/cart.rs:7\n> +let b = 1;\nname it total\n\nsrc/zero.rs:1\n> +zero\nwhy\n"
    );
}

#[test]
fn nothing_is_left_out_silently() {
    let mut stage = reviewing();
    let (session, against) = ("sess_cart".to_owned(), "main".to_owned());
    stage.update(Update::Diff { session, against, files: vec![file("a")], more: 17 });
    stage.shows("and 17 more files");
    stage.update(Update::ReviewFailed { session: "sess_cart".to_owned(), why: "no repository".to_owned() });
    stage.shows("no repository");
}

#[test]
fn a_long_change_is_drawn_by_what_is_visible() {
    let mut stage = reviewing();
    let all = (0..5_000).map(|at| line('+', at, &format!("added line {at}."))).collect();
    lines(&mut stage, "src/cart.rs", all);
    stage.shows("added line 0.");
    stage.press("G");
    stage.shows("added line 4999.");
    stage.press("g");
    stage.shows("added line 0.");
}
