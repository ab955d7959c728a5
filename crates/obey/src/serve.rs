//! From `obey serve` to the daemon: determines its options, moves it to the background, announces readiness.
//! `daemon` serves; `client` detects that no daemon is running.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use runtime::settings::SettingsSources;

use crate::args::ServeArgs;
use crate::config::listen::Address;
use crate::config::{self, Config, Flags};
use crate::failure::{Failure, Result};
use crate::inherited::Inherited;
use crate::paths::Paths;
use crate::vars::Vars;

/// Everything the daemon needs to start.
#[derive(Debug)]
pub(crate) struct ServeOptions {
    /// The configuration with file, environment and flags applied. The fields below are derived from it.
    pub(crate) config: Config,
    /// Absolute.
    pub(crate) socket: PathBuf,
    pub(crate) listen: Vec<Address>,
    /// Absolute.
    pub(crate) tls: config::listen::Tls,
    /// Absolute.
    pub(crate) data_dir: PathBuf,
    /// The folder of the configuration file, which also holds the user's rules and policies.
    pub(crate) config_dir: PathBuf,
    /// Settings of conversations.
    pub(crate) settings: SettingsSources,
    pub(crate) ready: Announcer,
    /// The flags to start another daemon like this one.
    pub(crate) flags: Vec<OsString>,
    /// What a service manager passed.
    pub(crate) inherited: Inherited,
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
    let text = config::read_file(&file)?;
    if text.is_none() && args.config.is_some() {
        return Err(Failure::usage(format!("{} does not exist", file.display())));
    }
    let config = config::load(text.as_deref().map(|text| (file.as_path(), text)), vars, &flags)?;
    Ok(ServeOptions {
        socket: config.socket.as_deref().map_or_else(|| paths.socket.clone(), |path| paths.expand(path)),
        data_dir: config
            .data_dir
            .as_deref()
            .map_or_else(|| paths.data_dir.clone(), |path| paths.expand(path)),
        config_dir: file.parent().map_or_else(PathBuf::new, Path::to_owned),
        listen: config.listen.iter().map(|text| config::listen::address(text)).collect::<Result<_>>()?,
        tls: config.tls.expanded(paths),
        settings: settings(args, vars, paths, &file)?,
        ready: Announcer { background: args.background },
        flags: self::flags(args)?,
        inherited: Inherited::default(),
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

/// Returns the configuration file: from the flag, `OBEY_CONFIG` or the default path.
pub(crate) fn config_file(flag: Option<&Path>, vars: &Vars, paths: &Paths) -> Result<PathBuf> {
    let chosen = flag.map(Path::to_owned).or_else(|| vars.get("OBEY_CONFIG").map(PathBuf::from));
    chosen.map_or_else(|| Ok(paths.config_file.clone()), |path| absolute(&path))
}

/// Returns an absolute path; the daemon changes its working directory.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// Detaches from the terminal, so that closing it or Ctrl-C in it does not end the daemon.
pub(crate) fn leave_terminal() {
    // Fails only for a group leader, which already has its own session or was put there on purpose.
    let _already_leader = rustix::process::setsid();
}

/// Announces to the starting process that the daemon is ready.
#[derive(Debug)]
pub(crate) struct Announcer {
    pub(crate) background: bool,
}

impl Announcer {
    /// Prints `ready socket=… listen=…` on standard output. In the background standard output then becomes the log,
    /// because the pipe behind it ends with the command that started us.
    pub(crate) fn announce(self, socket: &Path, listen: &[String]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let told = writeln!(stdout, "{}", ready_line(socket, listen)).and_then(|()| stdout.flush());
        if !self.background {
            return told;
        }
        // The starting command may have given up; the daemon is ready nevertheless.
        let _nobody_waits = told;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr()).map_err(io::Error::from)
    }
}

const READY: &str = "ready socket=";

fn ready_line(socket: &Path, listen: &[String]) -> String {
    format!("{READY}{} listen={}", socket.display(), listen.join(","))
}

/// Returns the addresses of a ready line, or `None` for other lines.
pub(crate) fn read_ready_line(line: &str) -> Option<&str> {
    let (_, listen) = line.trim_end().strip_prefix(READY)?.rsplit_once(" listen=")?;
    Some(listen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_is_read_as_it_is_written() {
        let addresses = ["127.0.0.1:1".to_owned(), "[::1]:2".to_owned()];
        let line = ready_line(Path::new("/a b/daemon.sock"), &addresses);
        assert_eq!(line, "ready socket=/a b/daemon.sock listen=127.0.0.1:1,[::1]:2");
        assert_eq!(read_ready_line(&line), Some("127.0.0.1:1,[::1]:2"));
        assert_eq!(read_ready_line(&ready_line(Path::new("/s"), &[])), Some(""));
        assert_eq!(read_ready_line("warning: something"), None);
    }

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
