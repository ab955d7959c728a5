// Keeps the shell of the page, so that it opens while the daemon is away and says so; shows what the daemon pushes. Data of
// sessions is never kept: every call goes to the daemon.
const SHELL = "obey-shell";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== self.location.origin) return;
  if (event.request.mode === "navigate") event.respondWith(shell(event.request));
  else if (url.pathname.startsWith("/assets/")) event.respondWith(asset(event.request));
});

/** The document, fresh where the daemon answers. */
async function shell(request) {
  const kept = await caches.open(SHELL);
  try {
    const answer = await fetch(request);
    const isPage = answer.ok && (answer.headers.get("content-type") ?? "").startsWith("text/html");
    if (isPage && !new URL(request.url).pathname.startsWith("/docs")) {
      const text = await answer.clone().text();
      await kept.put("/", answer.clone());
      // Files of another build are of no use to this document.
      for (const old of await kept.keys()) {
        const path = new URL(old.url).pathname;
        if (path.startsWith("/assets/") && !text.includes(path) && !path.includes("/highlight-")) await kept.delete(old);
      }
    }
    return answer;
  } catch (error) {
    const found = await kept.match("/");
    if (found) return found;
    throw error;
  }
}

/** A file whose name has the hash of its content. */
async function asset(request) {
  const kept = await caches.open(SHELL);
  const found = await kept.match(request);
  if (found) return found;
  const answer = await fetch(request);
  if (answer.ok) await kept.put(request, answer.clone());
  return answer;
}

self.addEventListener("push", (event) => event.waitUntil(told(event.data?.json() ?? {})));

/** Shows a notice, or takes one back that was settled elsewhere. */
async function told({ tag, title, session, withdrawn }) {
  const shown = await self.registration.getNotifications({ tag });
  if (withdrawn) {
    for (const notice of shown) notice.close();
    return;
  }
  const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  if (pages.some((page) => page.focused && new URL(page.url).pathname === `/s/${session}`)) return;
  await self.registration.showNotification(title, { tag, icon: "/icon-192.png", data: { session } });
}

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(`/s/${event.notification.data?.session ?? ""}`));
});

async function open(path) {
  const [page] = await self.clients.matchAll({ type: "window" });
  if (!page) return self.clients.openWindow(path);
  await page.focus();
  return page.navigate(path);
}
