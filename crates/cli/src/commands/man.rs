//! `obey man`: manual pages of the commands, made from the same texts as `--help`.

use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::help;
use cli_args::everyday::ManArgs;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::nearest::suggestion;
use terminal::console::Console;

pub(super) fn run(console: &mut Console, args: &ManArgs) -> Result<Exit> {
    let mut root = help::command();
    root.build();
    if let Some(folder) = &args.dir {
        let folder = console.folder.join(folder);
        let written = write_all(&root, &folder)?;
        console.out.line(&format!("Wrote {written} pages into {}", folder.display()))?;
        return Ok(Exit::OK);
    }
    let command = find(&root, &args.command)?;
    let page = page(command, &page_name(&args.command))?;
    console.out.bytes(&page)?;
    Ok(Exit::OK)
}

/// Finds the command that the words name.
fn find<'a>(root: &'a Command, words: &[String]) -> Result<&'a Command> {
    let mut command = root;
    for word in words {
        let Some(sub) = command.find_subcommand(word) else {
            let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let meant = suggestion(word, names.iter().copied());
            return Err(Failure::usage(format!("{} has no command {word:?}{meant}", command.get_name())));
        };
        command = sub;
    }
    Ok(command)
}

fn page_name(words: &[String]) -> String {
    let mut name = "obey".to_owned();
    for word in words {
        name.push('-');
        name.push_str(word);
    }
    name
}

/// Renders one page.
fn page(command: &Command, name: &str) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone())
        .title(name.to_owned())
        .render(&mut page)
        .map_err(|error| Failure::failed(format!("cannot make the page {name}: {error}")))?;
    Ok(page)
}

fn write_all(root: &Command, folder: &Path) -> Result<usize> {
    let failed =
        |error: std::io::Error| Failure::failed(format!("cannot write into {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut open = vec![(root, "obey".to_owned())];
    let mut written = 0;
    while let Some((command, name)) = open.pop() {
        std::fs::write(folder.join(format!("{name}.1")), page(command, &name)?).map_err(failed)?;
        written += 1;
        let below = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
        open.extend(below.map(|sub| (sub, format!("{name}-{}", sub.get_name()))));
    }
    Ok(written)
}
