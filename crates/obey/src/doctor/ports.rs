//! The addresses of the daemon that runs; where none runs, whether another program listens on a configured one.

use std::net::TcpListener;

use super::Finding;
use config::file::Config;
use config::file::listen;

const CHECK: &str = "ports";

/// Tries each address where no daemon runs; `served` are those of the one that runs.
pub(super) fn examine(config: &Config, runs: bool, served: &[String]) -> Finding {
    if !served.is_empty() {
        return Finding::ok(CHECK, served.join(", "));
    }
    if config.listen.is_empty() {
        return Finding::ok(CHECK, "none; only the socket is served");
    }
    let shown = config.listen.join(", ");
    if runs {
        return Finding::ok(CHECK, shown);
    }
    for text in &config.listen {
        let Ok(address) = listen::address(text) else { continue };
        let Err(error) = TcpListener::bind(address.at) else { continue };
        if config.default_listen == Some(address.at) {
            let message = format!("{text} is taken ({error}); the daemon will use the next free port");
            return Finding::warning(CHECK, message, "choose a port of your own: obey config edit");
        }
        let repair = format!(
            "end the program that listens there (ss -ltnp 'sport = :{}'), or change listen: obey config edit",
            address.at.port()
        );
        return Finding::broken(CHECK, format!("{text} cannot be used: {error}"), repair);
    }
    Finding::ok(CHECK, format!("{shown} free"))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_port_of_another_program_is_found_unless_the_daemon_runs() -> std::io::Result<()> {
        let taken = TcpListener::bind("127.0.0.1:0")?;
        let text = taken.local_addr()?.to_string();
        let config = Config { listen: vec![text.clone()], default_listen: None, ..Config::default() };
        let found = examine(&config, false, &[]);
        assert_eq!((found.state, found.message.contains(&text)), (State::Broken, true));
        assert_eq!(examine(&config, true, &[]).state, State::Ok);
        let served = ["127.0.0.1:50052".to_owned()];
        assert_eq!(examine(&config, true, &served).message, "127.0.0.1:50052", "not what is configured");
        let default = Config { default_listen: text.parse().ok(), ..config };
        assert_eq!(examine(&default, false, &[]).state, State::Warning);
        Ok(())
    }
}
