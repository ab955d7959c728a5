//! `obey exec --sandbox`: runs any command in the workbench's sandbox, with secrets removed from its output.

use wire::contextd::v1 as pb;

use super::WorkbenchSession;
use cli_args::ExecArgs;
use cli_args::workbench::WorkbenchSessionArgs;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;

pub(in crate::commands) async fn run(console: &mut Console, args: ExecArgs) -> Result<Exit> {
    if !args.environment.is_empty() {
        return Err(Failure::usage("--env is not for --sandbox: write `A=1 command`"));
    }
    let project = match &args.campaign {
        Some(campaign) => {
            let client = console.connect().await?;
            let id = resolve::campaign(&client, Some(campaign), &console.folder).await?;
            let found = resolve::campaigns(&client).await?.into_iter().find(|campaign| campaign.id == id);
            found.map(|campaign| campaign.path.into())
        }
        None => None,
    };
    let visit =
        WorkbenchSession::open(console, &WorkbenchSessionArgs { session: args.session.clone(), project })
            .await?;
    let done = execute(console, &visit, &args).await;
    visit.close().await;
    done
}

async fn execute(console: &mut Console, visit: &WorkbenchSession, args: &ExecArgs) -> Result<Exit> {
    let timeout =
        args.timeout.map_or(0, |timeout| i32::try_from(timeout.as_secs().max(1)).unwrap_or(i32::MAX));
    let request = pb::BashRequest {
        cmd: text(&args.command),
        timeout,
        session_id: visit.session(),
        working_dir: args.workdir.clone().unwrap_or_default(),
    };
    let answer = visit.client.safe_exec().bash(request).await?.into_inner();
    if console.out.json {
        console.out.json(&answer)?;
        return Ok(Exit(answer.exit_code));
    }
    let stdout = content(visit, &answer.stdout_ref).await?;
    console.out.bytes(stdout.as_bytes())?;
    let stderr = content(visit, &answer.stderr_ref).await?;
    console.out.err_bytes(stderr.as_bytes())?;
    console.out.note(TextStyle::Dim, &answer.summary)?;
    Ok(Exit(answer.exit_code))
}

async fn content(visit: &WorkbenchSession, ref_id: &str) -> Result<String> {
    if ref_id.is_empty() {
        return Ok(String::new());
    }
    let request = pb::RefGetContentRequest { ref_id: ref_id.to_owned(), session_id: visit.session() };
    Ok(visit.client.refs().get_content(request).await?.into_inner().content)
}

/// One word is a shell text; several are quoted words.
fn text(words: &[String]) -> String {
    match words {
        [one] => one.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words_and_one_word_is_a_text() {
        let words = |list: &[&str]| text(&list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["ls | wc -l"]), "ls | wc -l");
        assert_eq!(words(&["echo", "a b", "it's", "$HOME", "x=1"]), r"echo 'a b' 'it'\''s' '$HOME' x=1");
        assert_eq!(words(&["printf", ""]), "printf ''");
    }
}
