//! The packages of clients, built and installed from their archives, and the examples, run as a stranger runs them: without
//! arguments, without a key, in a registered folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::tools;
use e2e::world::World;

use super::{copy, run, run_with};

/// A world with a daemon in which the project is registered.
async fn registered() -> Result<(World, Cli)> {
    let world = World::new()?;
    let cli = Cli::new(&world);
    cli.ok(&["campaign", "add", ".", "--name", "shop"]).await?;
    Ok((world, cli))
}

/// What every example prints.
async fn check_example(cli: &Cli, said: &str) -> Result<()> {
    for wanted in ["created ", "request_opened", "allowed ", "turn_ended", "stopped "] {
        ensure!(said.contains(wanted), "no {wanted:?} in:\n{said}");
    }
    let requests = cli.json(&["session", "requests", "--all"]).await?;
    let allowed = requests["requests"].as_array().is_some_and(|all| {
        !all.is_empty() && all.iter().all(|request| request["outcome"].as_str() == Some("allowed once"))
    });
    ensure!(allowed, "{requests:#}");
    Ok(())
}

/// The committed messages are those of the `.proto` files.
#[test]
fn python_messages_are_those_of_the_published_files() -> Result<()> {
    let Some((python, _)) = tools::python()? else { return Ok(()) };
    let script = tools::repository().join("scripts/generate-clients");
    let checked = std::process::Command::new(python).arg(script).arg("--check").output()?;
    ensure!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    Ok(())
}

#[tokio::test]
async fn python_package_is_installed_from_its_archive_and_survives_kill_9() -> Result<()> {
    let Some((python, _)) = tools::python()? else { return Ok(()) };
    let (world, cli) = registered().await?;
    // Builds leave files beside the sources.
    let source = world.path("tmp/python");
    copy(&tools::repository().join("clients/python"), &source)?;
    let wheels = world.path("tmp/wheels");
    let wheel = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w"];
    let wheel: Vec<PathBuf> = wheel.into_iter().map(PathBuf::from).chain([wheels.clone(), source]).collect();
    run(&world, &python, &wheel, world.root()).await?;
    let archive = only_file(&wheels)?;
    let version = env!("CARGO_PKG_VERSION");
    ensure!(archive.ends_with(format!("obey_client-{version}-py3-none-any.whl")), "{}", archive.display());
    let site = world.path("tmp/site");
    let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"];
    let install: Vec<PathBuf> =
        install.into_iter().map(PathBuf::from).chain([site.clone(), archive]).collect();
    run(&world, &python, &install, world.root()).await?;
    ensure!(site.join("obey_client/py.typed").exists(), "the package is not typed");

    let path = [("PYTHONPATH", site.as_os_str())];
    let example = [tools::repository().join("examples/python/quickstart.py")];
    let said = run_with(&world, &python, &example, &world.project(), &path).await?;
    check_example(&cli, &said).await?;

    // The script counts the sessions that there are.
    let sessions = cli.json(&["session", "list", "--all"]).await?;
    for session in sessions["sessions"].as_array().context("no list")? {
        cli.ok(&["rm", "--force", session["id"].as_str().context("no id")?]).await?;
    }
    let script = tools::repository().join("e2e/tests/python/client_async.py");
    let args = [script, world.obey()?, world.project()];
    run_with(&world, &python, &args, &world.project(), &path).await.map(drop)
}

#[tokio::test]
async fn typescript_package_is_compiled_installed_from_its_archive_and_runs_the_example() -> Result<()> {
    let Some((node, tsc)) = tools::typescript()? else { return Ok(()) };
    let (world, cli) = registered().await?;
    let modules = tsc.ancestors().nth(3).context("no node_modules")?.to_owned();
    let (package, app) = (world.path("tmp/client"), world.path("tmp/app"));
    copy(&tools::repository().join("clients/typescript"), &package)?;
    std::os::unix::fs::symlink(&modules, package.join("node_modules"))?;
    run(&world, &node, &[tsc.as_os_str(), "-p".as_ref(), ".".as_ref()], &package).await?;
    let npm = ["pack", "--silent", "--pack-destination", ".."];
    run(&world, "npm", &npm, &package).await?;
    let archive = world.path(&format!("tmp/obey-client-{}.tgz", env!("CARGO_PKG_VERSION")));
    ensure!(archive.exists(), "no {}", archive.display());

    copy(&tools::repository().join("examples/typescript"), &app)?;
    fs::create_dir_all(app.join("node_modules/obey-client"))?;
    let unpack = [
        "-xzf".as_ref(),
        archive.as_os_str(),
        "--strip-components=1".as_ref(),
        "-C".as_ref(),
        "node_modules/obey-client".as_ref(),
    ];
    run(&world, "tar", &unpack, &app).await?;
    std::os::unix::fs::symlink(modules.join("@types"), app.join("node_modules/@types"))?;
    std::os::unix::fs::symlink(modules.join("undici-types"), app.join("node_modules/undici-types"))?;
    run(&world, &node, &[tsc.as_os_str(), "-p".as_ref(), ".".as_ref()], &app).await?;
    let said = run(&world, &node, &[app.join("dist/quickstart.js")], &world.project()).await?;
    check_example(&cli, &said).await?;
    // What a browser gets must not need Node.
    let browser = fs::read_to_string(app.join("node_modules/obey-client/dist/browser.js"))?;
    let shared = fs::read_to_string(app.join("node_modules/obey-client/dist/client.js"))?;
    ensure!(!browser.contains("node:") && !shared.contains("node:"), "the browser's part imports Node");
    Ok(())
}

#[tokio::test]
async fn rust_and_go_examples_run_without_arguments_and_without_a_key() -> Result<()> {
    let (world, cli) = registered().await?;
    let program = tools::obey()?.with_file_name("quickstart");
    ensure!(program.exists(), "{} is missing: cargo build -p example-rust", program.display());
    let nothing: [&str; 0] = [];
    let said = run(&world, &program, &nothing, &world.project()).await?;
    check_example(&cli, &said).await?;
    let Some(go) = tools::go() else { return Ok(()) };
    let binary = world.path("tmp/example-go");
    let source = tools::repository().join("examples/go/main.go");
    let build = ["build".as_ref(), "-o".as_ref(), binary.as_os_str(), source.as_os_str()];
    // Nothing may be fetched: it uses the standard library alone.
    let variables =
        [("GOPROXY", "off".as_ref()), ("GOFLAGS", "-mod=mod".as_ref()), ("GO111MODULE", "off".as_ref())];
    run_with(&world, go, &build, &world.path("tmp"), &variables).await?;
    let said = run(&world, &binary, &nothing, &world.project()).await?;
    check_example(&cli, &said).await
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    ensure!(files.len() == 1, "{files:?}");
    files.pop().context("no file")
}
