// The address of what is shown. Every screen has one, which can be linked and loaded again.

export interface Route {
  path: string;
  screen: "inbox" | "session" | "review" | "new" | "search" | "usage" | "audit" | "memory" | "settings" | "unknown";
  session: string;
  query: URLSearchParams;
}

function parse(): Route {
  const path = location.pathname;
  const query = new URLSearchParams(location.search);
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  const route = { path, query, session: "" };
  if (parts.length === 0) return { ...route, screen: "inbox" };
  if (parts[0] === "s" && parts[1]) {
    return { ...route, screen: parts[2] === "review" ? "review" : "session", session: parts[1] };
  }
  const known = ["new", "search", "usage", "audit", "memory", "settings"] as const;
  return { ...route, screen: known.find((name) => parts[0] === name) ?? "unknown" };
}

export const router: { current: Route } = $state({ current: parse() });

/** Goes to an address of the page. */
export function go(path: string): void {
  if (path !== location.pathname + location.search) history.pushState(null, "", path);
  router.current = parse();
}

/** Changes what is behind the `?` of the address, without a step in the history. */
export function setQuery(name: string, value: string): void {
  const query = new URLSearchParams(location.search);
  if (value === "") query.delete(name);
  else query.set(name, value);
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text === "" ? "" : `?${text}`));
  router.current = parse();
}

window.addEventListener("popstate", () => (router.current = parse()));

/** Lets links of the page change the screen without loading it again. */
document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a");
  const href = link?.getAttribute("href");
  if (!link || !href?.startsWith("/") || link.target === "_blank") return;
  event.preventDefault();
  go(href);
});
