// Writes dist/SOURCES: a hash over everything that dist is built from. A test without Node compares it with the sources.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const web = join(dirname(fileURLToPath(import.meta.url)), "..");
const PARTS = ["src", "public", "index.html", "vite.config.ts", "tsconfig.json", "package.json", "package-lock.json"];

function files(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).flatMap((name) => files(join(path, name)));
}

const hash = createHash("sha256");
const all = PARTS.flatMap((part) => files(join(web, part))).map((path) => relative(web, path)).sort();
for (const path of all) {
  const bytes = createHash("sha256").update(readFileSync(join(web, path))).digest("hex");
  hash.update(`${path} ${bytes}\n`);
}
writeFileSync(join(process.env.OBEY_WEB_OUT ?? join(web, "dist"), "SOURCES"), `${hash.digest("hex")}\n`);
