// Colours of code: highlight.js with the languages that agents write most. A chunk of its own, loaded with the first block.
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const all = { bash, c, cpp, css, diff, go, java, javascript, json, markdown, python, ruby, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(all)) hljs.registerLanguage(name, language);

/** Longer blocks stay plain: colouring them would hold up the page. */
const TEXT_MAX = 60_000;

interface Tree {
  scope?: string;
  language?: string;
  children: (Tree | string)[];
}

/** Colours a block, if its language is known. */
export function colour(target: HTMLElement, text: string, language: string): void {
  if (text.length > TEXT_MAX || hljs.getLanguage(language) === undefined) return;
  const result = hljs.highlight(text, { language, ignoreIllegals: true }) as unknown as { _emitter: { rootNode: Tree } };
  const parts = document.createDocumentFragment();
  append(parts, result._emitter.rootNode);
  target.replaceChildren(parts);
}

function append(target: Node, tree: Tree): void {
  for (const child of tree.children) {
    if (typeof child === "string") {
      target.appendChild(document.createTextNode(child));
    } else if (child.scope) {
      const span = document.createElement("span");
      span.className = child.scope.split(".").map((part, at) => (at === 0 ? `hljs-${part}` : `${part}_`)).join(" ");
      append(span, child);
      target.appendChild(span);
    } else {
      append(target, child);
    }
  }
}
