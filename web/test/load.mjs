// Compiles modules of `src` for tests without a browser: types are removed, nothing else happens.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import ts from "typescript";

const web = join(dirname(fileURLToPath(import.meta.url)), "..");
const out = join(web, "node_modules", ".cache", "obey-test");

/** Imports a module of `src`, such as "fold/transcript". */
export async function load(name) {
  for (const folder of ["fold", "text", "wire", "list"]) compile(folder);
  return import(pathToFileURL(join(out, `${name}.js`)).href);
}

function compile(folder) {
  mkdirSync(join(out, folder), { recursive: true });
  writeFileSync(join(out, "package.json"), '{"type":"module"}');
  for (const file of readdirSync(join(web, "src", folder))) {
    if (!file.endsWith(".ts")) continue;
    const source = readFileSync(join(web, "src", folder, file), "utf8");
    const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022, verbatimModuleSyntax: true, rewriteRelativeImportExtensions: true };
    const { outputText } = ts.transpileModule(source, { compilerOptions: options, fileName: file });
    writeFileSync(join(out, folder, file.replace(/\.ts$/, ".js")), outputText);
  }
}
