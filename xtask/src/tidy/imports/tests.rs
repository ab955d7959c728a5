//! An edge outside of the tables is found, and the packages of this workspace are read.

use super::*;

fn uses(name: &str, dependencies: &[(&str, bool, bool)]) -> Vec<Package> {
    let dependencies = dependencies.iter().map(|(name, ours, only_tests)| Dependency {
        name: (*name).to_owned(),
        ours: *ours,
        only_tests: *only_tests,
    });
    vec![Package { name: name.to_owned(), dependencies: dependencies.collect() }]
}

#[test]
fn an_edge_outside_of_the_table_is_found() {
    assert_eq!(edges(&uses("runtime", &[("domain", true, false), ("shim", true, false)])), []);
    let found = edges(&uses("surface", &[("providers", true, false)]));
    assert_eq!(found, [Breach::new("imports", "surface", "must not depend on providers")]);
    assert_eq!(edges(&uses("domain", &[("runtime", true, true)])).len(), 1, "in tests too");
    assert_eq!(edges(&uses("newcomer", &[])).len(), 1);
    assert_eq!(
        edges(&uses("daemon", &[("surface-web", true, false), ("provider-acp", true, false)])).len(),
        1
    );
}

#[test]
fn a_guarded_crate_in_the_wrong_layer_is_found() {
    assert_eq!(third_party(&uses("runtime", &[("tokio", false, false), ("ulid", false, false)])), []);
    assert_eq!(third_party(&uses("providers", &[("rusqlite", false, false)])).len(), 1);
    assert_eq!(third_party(&uses("runtime", &[("anyhow", false, false)])).len(), 1);
    assert_eq!(third_party(&uses("runtime", &[("clap", false, true)])), [], "tests are free");
}

#[test]
fn a_closed_crate_takes_nothing_new() {
    assert_eq!(third_party(&uses("domain", &[("serde", false, false)])), []);
    assert_eq!(third_party(&uses("domain", &[("ulid", false, false)])).len(), 1);
    assert_eq!(third_party(&uses("shim", &[("serde", false, false)])).len(), 1);
}

#[test]
fn cargo_names_the_packages_of_this_workspace() {
    let packages = packages(&crate::tidy::workspace_root()).unwrap();
    let domain = packages.iter().find(|package| package.name == "domain").unwrap();
    assert!(domain.dependencies.iter().any(|dependency| dependency.name == "serde" && !dependency.ours));
    let runtime = packages.iter().find(|package| package.name == "runtime").unwrap();
    assert!(runtime.dependencies.iter().any(|dependency| dependency.name == "domain" && dependency.ours));
}
