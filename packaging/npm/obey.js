#!/usr/bin/env node
// Runs the program of this platform, which a package of its own carries.
const { spawnSync } = require("node:child_process");

const name = `obey-daemon-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/obey`);
} catch {
  console.error(`obey: the package ${name} is not installed. Install again without --omit=optional; for other platforms build from source: cargo install --path crates/obey`);
  process.exit(1);
}
const ended = spawnSync(program, process.argv.slice(2), { stdio: "inherit" });
if (ended.error) {
  console.error(`obey: ${program} cannot be run: ${ended.error.message}`);
  process.exit(1);
}
if (ended.signal) process.kill(process.pid, ended.signal);
process.exit(ended.status ?? 1);
