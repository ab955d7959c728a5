//! What an installation puts where, and the packages of a release, made from the binary under test and installed by the
//! package managers themselves.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::tools;
use e2e::world::World;
use serde_json::Value;

use super::{run, run_with};

/// The platform of the binary under test, as a release names it.
fn triple() -> String {
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-gnu" };
    format!("{}-{system}", std::env::consts::ARCH)
}

#[tokio::test]
async fn make_install_puts_everything_below_its_prefix_and_uninstall_removes_it() -> Result<()> {
    let world = World::new()?;
    let prefix = world.path("tmp/usr");
    let variables = [format!("PREFIX={}", prefix.display()), format!("BINARY={}", tools::obey()?.display())];
    let make = |target: &str| {
        [target, "--no-print-directory"]
            .into_iter()
            .map(str::to_owned)
            .chain(variables.clone())
            .collect::<Vec<_>>()
    };
    run(&world, "make", &make("install"), &tools::repository()).await?;
    let said = run(&world, prefix.join("bin/obey"), &["--version"], world.root()).await?;
    ensure!(said.trim() == format!("obey {}", env!("CARGO_PKG_VERSION")), "{said}");
    let started = format!("ExecStart=\"{}/bin/obey\"", prefix.display());
    for (file, wanted) in [
        ("share/man/man1/obey.1", ".TH obey"),
        ("share/man/man1/obey-session-create.1", ".TH"),
        ("share/bash-completion/completions/obey", "obey"),
        ("share/zsh/site-functions/_obey", "#compdef obey"),
        ("share/fish/vendor_completions.d/obey.fish", "complete"),
        ("lib/systemd/user/obey.service", started.as_str()),
        ("lib/systemd/user/obey.socket", "ListenStream"),
    ] {
        let text = fs::read_to_string(prefix.join(file)).context(file)?;
        ensure!(text.contains(wanted), "{file} lacks {wanted:?}:\n{text}");
    }
    run(&world, "make", &make("uninstall"), &tools::repository()).await?;
    let left = files_below(&prefix)?;
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[tokio::test]
async fn packages_of_a_release_are_reproducible_and_are_installed_by_their_managers() -> Result<()> {
    let Some((python, _)) = tools::python()? else { return Ok(()) };
    let world = World::new()?;
    let (out, again) = (world.path("tmp/out"), world.path("tmp/again"));
    let binary = stand_in(&world)?;
    for folder in [&out, &again] {
        pack(&world, &binary, folder).await?;
    }
    for file in files_below(&out)? {
        let other = again.join(file.strip_prefix(&out)?);
        ensure!(fs::read(&file)? == fs::read(&other)?, "{} differs the second time", file.display());
    }
    let sums = fs::read_to_string(out.join("SHA256SUMS"))?;
    ensure!(sums.lines().count() >= 6, "{sums}");
    if cfg!(target_os = "linux") {
        run(&world, "sha256sum", &["--check", "--quiet", "SHA256SUMS"], &out).await?;
    }
    check_sbom(&out)?;
    let formula = fs::read_to_string(out.join("obey.rb"))?;
    ensure!(!formula.contains('@') && formula.contains(env!("CARGO_PKG_VERSION")), "{formula}");
    check_archive(&world, &out).await?;
    check_wheel(&world, &python, &out).await?;
    check_npm(&world, &out).await?;
    check_deb(&world, &out).await
}

/// A small program that is the binary under test when it runs: packing a development build takes minutes.
fn stand_in(world: &World) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = world.path("tmp/obey");
    fs::write(&path, format!("#!/bin/sh\nexec '{}' \"$@\"\n", tools::obey()?.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

async fn pack(world: &World, binary: &Path, out: &Path) -> Result<()> {
    let script = tools::repository().join("scripts/release/package");
    let cargo = std::env::var_os("CARGO_HOME").unwrap_or_default();
    let home = std::env::var_os("HOME").unwrap_or_default();
    let args = ["--binary".as_ref(), binary.as_os_str(), "--target".as_ref()].map(ToOwned::to_owned).to_vec();
    let shared = ["--shared".into(), "--out".into(), out.as_os_str().to_owned()];
    let args: Vec<_> = args.into_iter().chain([triple().into()]).chain(shared).collect();
    // Cargo finds the crates where the developer has them.
    let mut variables = vec![("SOURCE_DATE_EPOCH", "1700000000".as_ref()), ("HOME", home.as_os_str())];
    if !cargo.is_empty() {
        variables.push(("CARGO_HOME", cargo.as_os_str()));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    variables.push(("PATH", path.as_os_str()));
    run_with(world, script, &args, world.root(), &variables).await.map(drop)
}

/// The SBOM has every crate of the lock file that the program needs, with licence and checksum.
fn check_sbom(out: &Path) -> Result<()> {
    let file = out.join(format!("obey-{}.cdx.json", env!("CARGO_PKG_VERSION")));
    let sbom: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    ensure!(sbom["bomFormat"] == "CycloneDX" && sbom["specVersion"] == "1.5", "{}", sbom["bomFormat"]);
    let components = sbom["components"].as_array().context("no components")?;
    ensure!(components.len() > 200, "only {} components", components.len());
    for name in ["tokio", "rusqlite", "rustls", "domain"] {
        let found = components.iter().find(|component| component["name"] == name).context(name)?;
        ensure!(found["purl"].as_str().is_some_and(|purl| purl.starts_with("pkg:cargo/")), "{found}");
        ensure!(found["licenses"][0]["expression"].as_str().is_some_and(|text| !text.is_empty()), "{found}");
        ensure!(name == "domain" || found["hashes"][0]["content"].as_str().is_some(), "{found}");
    }
    Ok(())
}

async fn check_archive(world: &World, out: &Path) -> Result<()> {
    let name = format!("obey-{}-{}", env!("CARGO_PKG_VERSION"), triple());
    let folder = world.path("tmp/unpacked");
    fs::create_dir(&folder)?;
    let archive = out.join(format!("{name}.tar.gz"));
    run(world, "tar", &["-xzf".as_ref(), archive.as_os_str()], &folder).await?;
    runs(world, &folder.join(name).join("bin/obey")).await
}

async fn check_wheel(world: &World, python: &Path, out: &Path) -> Result<()> {
    let wheel = find(out, ".whl")?;
    let venv = world.path("tmp/venv");
    run(world, python, &["-m".as_ref(), "venv".as_ref(), venv.as_os_str()], world.root()).await?;
    let install =
        ["install", "--quiet", "--no-index", "--no-deps"].map(PathBuf::from).into_iter().chain([wheel]);
    run(world, venv.join("bin/pip"), &install.collect::<Vec<_>>(), world.root()).await?;
    runs(world, &venv.join("bin/obey")).await?;
    run(world, venv.join("bin/pip"), &["uninstall", "--yes", "--quiet", "obey-daemon"], world.root()).await?;
    ensure!(!venv.join("bin/obey").exists(), "pip left the program behind");
    Ok(())
}

async fn check_npm(world: &World, out: &Path) -> Result<()> {
    if tools::node()?.is_none() {
        return Ok(());
    }
    let app = world.path("tmp/npm");
    fs::create_dir(&app)?;
    // A project of its own: npm takes the nearest folder above that has one otherwise.
    fs::write(app.join("package.json"), "{\"private\": true}")?;
    let version = env!("CARGO_PKG_VERSION");
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let processor = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let own = out.join(format!("obey-daemon-{system}-{processor}-{version}.tgz"));
    let wrapper = out.join(format!("obey-daemon-{version}.tgz"));
    let install = ["install", "--no-audit", "--no-fund", "--offline", "--omit=optional"];
    let install: Vec<PathBuf> = install.into_iter().map(PathBuf::from).chain([own, wrapper]).collect();
    run(world, "npm", &install, &app).await?;
    runs(world, &app.join("node_modules/.bin/obey")).await
}

/// Installs the package into a root of its own and removes it again.
async fn check_deb(world: &World, out: &Path) -> Result<()> {
    let Ok(package) = find(out, ".deb") else {
        println!("SKIPPED: dpkg-deb is not installed");
        return Ok(());
    };
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: installing a .deb needs root");
        return Ok(());
    }
    let root = world.path("tmp/root");
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
        fs::create_dir_all(root.join(folder))?;
    }
    for file in ["status", "available"] {
        fs::write(root.join("var/lib/dpkg").join(file), "")?;
    }
    let dpkg = |more: &[&str]| {
        let mut args = vec![format!("--root={}", root.display()), "--force-depends".to_owned()];
        args.extend(more.iter().map(|word| (*word).to_owned()));
        args
    };
    run(world, "dpkg", &dpkg(&["--install", &package.to_string_lossy()]), world.root()).await?;
    runs(world, &root.join("usr/bin/obey")).await?;
    ensure!(root.join("usr/share/man/man1/obey.1.gz").exists(), "no manual page");
    let unit = fs::read_to_string(root.join("usr/lib/systemd/user/obey.service"))?;
    ensure!(unit.contains("/usr/bin/obey"), "{unit}");
    run(world, "dpkg", &dpkg(&["--purge", "obey"]), world.root()).await?;
    let left = files_below(&root.join("usr")).unwrap_or_default();
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

async fn runs(world: &World, program: &Path) -> Result<()> {
    let said = run(world, program, &["--version"], world.root()).await?;
    ensure!(said.trim() == format!("obey {}", env!("CARGO_PKG_VERSION")), "{}: {said}", program.display());
    Ok(())
}

fn find(folder: &Path, ending: &str) -> Result<PathBuf> {
    let files = files_below(folder)?;
    files.into_iter().find(|file| file.to_string_lossy().ends_with(ending)).context(ending.to_owned())
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => open.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort();
    Ok(files)
}

#[test]
fn what_is_missing_is_named_with_the_package_that_has_it() -> Result<()> {
    let world = World::new()?;
    let programs = world.path("tmp/bin");
    fs::create_dir(&programs)?;
    for (name, program) in [("bash", "/bin/bash"), ("cc", "/bin/true"), ("cargo", "/bin/true")] {
        std::os::unix::fs::symlink(program, programs.join(name))?;
    }
    let ask = |what: &str, variables: &[(&str, &str)]| {
        let mut command = world.command(tools::repository().join("scripts/check-needs"));
        command
            .arg(what)
            .env("PATH", &programs)
            .envs(variables.iter().copied())
            .output()
            .context("check-needs")
    };
    let test = ask("test", &[])?;
    let said = String::from_utf8_lossy(&test.stdout).into_owned();
    ensure!(!test.status.success(), "{said}");
    for wanted in
        ["make test needs:", "missing: node ", "apt install nodejs", "python3-venv", "apt install tmux"]
    {
        ensure!(said.contains(wanted), "no {wanted:?} in:\n{said}");
    }
    ensure!(ask("test", &[("OBEY_TEST_ALLOW_SKIP", "1")])?.status.success(), "skipping was allowed");
    let run = ask("run", &[])?;
    ensure!(run.status.success() && run.stdout.starts_with(b"make run needs:"), "{run:?}");
    Ok(())
}
