//! The line by which a started daemon says that it is ready: written by the daemon, read by the command that started it.

use std::path::Path;

const READY: &str = "ready socket=";

/// Returns the line for a socket and its addresses.
pub fn ready_line(socket: &Path, listen: &[String]) -> String {
    format!("{READY}{} listen={}", socket.display(), listen.join(","))
}

/// Returns the addresses of a ready line, or `None` for other lines.
pub fn read_ready_line(line: &str) -> Option<&str> {
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
}
