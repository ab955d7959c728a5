//! Releases the program's code pages after the start. The start runs much code that never runs again; its
//! pages would otherwise count as the daemon's memory for as long as it runs.

/// Drops the mapped pages of the program's code. They are mapped again from the file on demand, one page
/// fault each.
#[cfg(target_os = "linux")]
pub(super) fn forget_start() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let Ok(program) = std::env::current_exe() else { return };
    let program = program.display().to_string();
    for (start, length) in code_of(&program, &maps) {
        forget(start, length);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn forget_start() {}

/// Returns the code mappings of a file: start and length.
fn code_of(program: &str, maps: &str) -> Vec<(usize, usize)> {
    maps.lines()
        .filter_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            // Only code is certain to equal the file: data and relocations were written to.
            let is_code = rest.starts_with("r-xp ") && rest.ends_with(program);
            let (start, end) = range.split_once('-').filter(|_| is_code)?;
            let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
            Some((start, end.checked_sub(start)?))
        })
        .collect()
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn forget(start: usize, length: usize) {
    // SAFETY: the range is one mapping of our own program's code, which is private, read-only and never
    // written to, so every page is read again from the file unchanged. An error leaves everything as it is.
    let _ = unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_itself_is_found() {
        let maps = "5000-6000 r--p 00000000 fe:00 1   /usr/bin/obey\n\
                    6000-9000 r-xp 00001000 fe:00 1   /usr/bin/obey\n\
                    9000-a000 rw-p 00004000 fe:00 1   /usr/bin/obey\n\
                    a000-b000 r-xp 00000000 fe:00 2   /lib/libc.so.6\n\
                    b000-c000 r-xp 00000000 00:00 0   [vdso]\n";
        assert_eq!(code_of("/usr/bin/obey", maps), [(0x6000, 0x3000)]);
    }

    #[test]
    fn the_program_runs_on_without_what_it_forgot() {
        let program = std::env::current_exe().unwrap().display().to_string();
        let maps = || std::fs::read_to_string("/proc/self/maps").unwrap();
        let before = code_of(&program, &maps());
        forget_start();
        assert!(!before.is_empty());
        assert_eq!(code_of(&program, &maps()), before);
    }
}
