//! From `obey serve` to the daemon: determines its options from arguments, variables and the configuration file, and
//! becomes it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runtime::settings::SettingsSources;

use cli_args::ServeArgs;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::file::{self, Flags};
use config::paths::{Paths, absolute, config_file};
use config::vars::Vars;
use daemon::inherited::Inherited;
use daemon::options::{Announcer, Machines, ServeOptions, hide_memory, leave_terminal};

use crate::paired_machines::PairedMachines;
use terminal::console::Console;

/// Runs the daemon in this process until it ends.
pub(crate) fn run(console: &Console, args: &ServeArgs) -> Result<Exit> {
    hide_memory();
    if args.background {
        leave_terminal();
    }
    let mut options = options(args, console.global.socket.as_deref(), &console.vars, &console.paths)?;
    // No other thread exists yet.
    options.inherited = Inherited::take(&console.vars)?;
    daemon::serve(options).map(Exit).map_err(of_daemon)
}

/// Keeps the code of a daemon error, and the chain of causes of any other error.
fn of_daemon(error: anyhow::Error) -> Failure {
    match error.downcast::<domain::Error>() {
        Ok(error) => Failure::coded(error.code, error.message),
        Err(error) => Failure::failed(format!("{error:#}")),
    }
}

/// Determines the options of `obey serve`.
pub(crate) fn options(
    args: &ServeArgs,
    socket: Option<&Path>,
    vars: &Vars,
    paths: &Paths,
) -> Result<ServeOptions> {
    let flags = Flags {
        listen: args.listen.clone(),
        socket: socket.map(absolute).transpose()?,
        data_dir: args.data_dir.as_deref().map(absolute).transpose()?,
        log_level: args.log_level.clone(),
        tls_cert: args.tls_cert.as_deref().map(absolute).transpose()?,
        tls_key: args.tls_key.as_deref().map(absolute).transpose()?,
    };
    let file = config_file(args.config.as_deref(), vars, paths)?;
    let text = file::read_file(&file)?;
    if text.is_none() && args.config.is_some() {
        return Err(Failure::usage(format!("{} does not exist", file.display())));
    }
    let config = file::load(text.as_deref().map(|text| (file.as_path(), text)), vars, &flags)?;
    daemon::check(&config)?;
    Ok(ServeOptions {
        socket: config.socket.as_deref().map_or_else(|| paths.socket.clone(), |path| paths.expand(path)),
        data_dir: config
            .data_dir
            .as_deref()
            .map_or_else(|| paths.data_dir.clone(), |path| paths.expand(path)),
        config_dir: file.parent().map_or_else(PathBuf::new, Path::to_owned),
        listen: config.listen.iter().map(|text| file::listen::address(text)).collect::<Result<_>>()?,
        tls: config.tls.expanded(paths),
        settings: settings(args, vars, paths, &file)?,
        ready: Announcer { background: args.background },
        flags: self::flags(args)?,
        inherited: Inherited::default(),
        machines: Machines(Arc::new(PairedMachines::new(paths))),
        config,
    })
}

/// Returns the flags, besides the socket, to start another daemon with these arguments.
pub(crate) fn flags(args: &ServeArgs) -> Result<Vec<OsString>> {
    let mut flags: Vec<OsString> = Vec::new();
    for address in &args.listen {
        flags.extend(["--listen".into(), address.into()]);
    }
    if let Some(level) = &args.log_level {
        flags.extend(["--log-level".into(), level.into()]);
    }
    for (flag, path) in [
        ("--config", &args.config),
        ("--data-dir", &args.data_dir),
        ("--tls-cert", &args.tls_cert),
        ("--tls-key", &args.tls_key),
    ] {
        if let Some(path) = path {
            flags.extend([flag.into(), absolute(path)?.into()]);
        }
    }
    Ok(flags)
}

/// The user's rules, next to the configuration.
const RULES_FILE: &str = "rules.toml";

/// Determines the sources of conversation settings.
fn settings(args: &ServeArgs, vars: &Vars, paths: &Paths, config: &Path) -> Result<SettingsSources> {
    let coded = |error: domain::Error| Failure::coded(error.code, error.message);
    Ok(SettingsSources {
        global_file: Some(paths.settings_file(vars)),
        rules_file: Some(config.with_file_name(RULES_FILE)),
        environment: SettingsSources::read_environment(vars.all()).map_err(coded)?,
        flags: SettingsSources::read_flags(args.betcode.iter().map(String::as_str)).map_err(coded)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::file::listen::Address;

    #[test]
    fn flags_win_and_paths_become_absolute() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("c.toml");
        std::fs::write(&file, "socket = \"/from/file.sock\"\ndata_dir = \"~/data\"\nlisten = []\n").unwrap();
        let vars = Vars::of(&[("HOME", "/h")]);
        let paths = Paths::of(&vars, 1);
        let args = ServeArgs { config: Some(file), ..ServeArgs::default() };

        let by_file = options(&args, None, &vars, &paths).unwrap();
        assert_eq!(by_file.socket, Path::new("/from/file.sock"));
        assert_eq!(by_file.data_dir, Path::new("/h/data"));
        assert!(by_file.listen.is_empty());

        let by_flag = options(&args, Some(Path::new("x.sock")), &vars, &paths).unwrap();
        assert_eq!(by_flag.socket, std::env::current_dir().unwrap().join("x.sock"));
    }

    #[test]
    fn a_named_file_must_exist_but_the_usual_one_need_not() {
        let vars = Vars::of(&[("HOME", "/nowhere")]);
        let paths = Paths::of(&vars, 1);
        let options_default = options(&ServeArgs::default(), None, &vars, &paths).unwrap();
        assert_eq!(options_default.listen, [Address { at: "127.0.0.1:50051".parse().unwrap(), tls: false }]);
        let named = ServeArgs { config: Some("/nowhere/c.toml".into()), ..ServeArgs::default() };
        assert!(options(&named, None, &vars, &paths).unwrap_err().message.contains("does not exist"));
    }
}
