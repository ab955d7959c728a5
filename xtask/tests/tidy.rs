//! Runs the rules of the tree with all other tests. `cargo tidy` prints the same report without the test
//! around it.

use xtask::tidy;

#[test]
fn the_tree_keeps_its_rules() {
    let report = tidy::check(&tidy::workspace_root()).unwrap();
    for note in &report.notes {
        println!("{note}");
    }
    assert!(report.breaches.is_empty(), "\n{report}");
}
