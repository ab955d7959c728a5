// A proxy between the browser and the daemon that cuts, delays, holds back and answers itself, as a scenario wants it. It speaks
// HTTP, because the daemon refuses requests that name another host.
import { existsSync, readFileSync } from "node:fs";
import http from "node:http";
import { BASE } from "./drive.mjs";

/** Random numbers that are the same in every run with the same seed. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Starts a proxy. `onStream(response, number)` may return the byte at which a live stream is cut, or nothing. */
export async function proxy(options = {}) {
  const daemon = new URL(BASE);
  const open = new Set();
  let streams = 0;
  const self = { base: "", isSilent: false, isDeaf: false, streams: () => streams, cutAll: () => open.forEach((one) => one.destroy()), close: () => server.close() };
  const server = http.createServer((request, response) => {
    const isLive = request.url === "/api/live";
    if (isLive && options.live) return options.live(request, response);
    // Taken and never answered, as by a machine that went away with the connection half open.
    if (isLive && self.isDeaf) return void request.resume();
    if (process.env.PAGE_DIST && request.method === "GET") {
      // As in drive.mjs: files of a build that is not in the daemon yet.
      const path = new URL(request.url, BASE).pathname;
      const file = process.env.PAGE_DIST + (/^\/(assets|.*\.)/.test(path) ? path : "/index.html");
      if (existsSync(file) && !path.startsWith("/api/")) {
        const type = { html: "text/html", js: "text/javascript", css: "text/css" }[file.split(".").pop()] ?? "image/svg+xml";
        response.writeHead(200, { "content-type": type });
        return response.end(readFileSync(file));
      }
    }
    const headers = { ...request.headers, host: daemon.host };
    if (headers.origin) headers.origin = daemon.origin;
    const forwarded = http.request({ host: daemon.hostname, port: daemon.port, path: request.url, method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      if (!isLive) return answer.pipe(response);
      streams += 1;
      let left = options.cutAt?.(streams) ?? Infinity;
      open.add(response.socket);
      response.socket.on("close", () => open.delete(response.socket));
      const silentFrom = self.isSilent;
      answer.on("data", (bytes) => {
        // A connection that went silent stays so: new ones work.
        if (self.isSilent || silentFrom) return;
        const piece = bytes.subarray(0, Math.min(bytes.length, left));
        left -= piece.length;
        response.write(piece, () => left <= 0 && response.socket?.destroy());
      });
      answer.on("end", () => response.end());
      answer.on("error", () => response.destroy());
      response.on("close", () => answer.destroy());
    });
    forwarded.on("error", () => response.destroy());
    request.pipe(forwarded);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  self.base = `http://127.0.0.1:${server.address().port}`;
  return self;
}

/** Opens the page behind the proxy, with a key. */
export async function signInAt(page, base, obey, path = "/") {
  const { url } = JSON.parse(await obey("web", "--json"));
  await page.goto(url.replace(BASE, base));
  await page.waitForFunction(() => sessionStorage.getItem("obey-key") !== null);
  await page.goto(base + path);
}
