// The client in Node: over the daemon's Unix socket, or over TCP like a browser.

import http from "node:http";
import os from "node:os";

import { FetchTransport } from "./browser.js";
import { type Answer, BaseObeyClient, type ClientOptions, type Transport } from "./client.js";

export * from "./types.js";
export { newKey } from "./client.js";
export type { ClientOptions } from "./client.js";

export interface NodeOptions extends ClientOptions {
  /** `unix:PATH` or `http://127.0.0.1:PORT`; by default the socket of this user's daemon. */
  address?: string;
}

/** Where the daemon of this user listens. */
export function defaultAddress(): string {
  if (process.env["OBEY_SOCKET"]) return `unix:${process.env["OBEY_SOCKET"]}`;
  const runtime = process.env["XDG_RUNTIME_DIR"] ?? "";
  const folder = runtime.startsWith("/") ? `${runtime}/obey` : `/tmp/obey-${os.userInfo().uid}`;
  return `unix:${folder}/daemon.sock`;
}

export class ObeyClient extends BaseObeyClient {
  constructor(options: NodeOptions = {}) {
    const address = options.address ?? defaultAddress();
    super(address.startsWith("unix:") ? new SocketTransport(address.slice(5)) : new FetchTransport(address), options);
  }
}

/** Calls over a Unix socket. */
class SocketTransport implements Transport {
  private readonly agent = new http.Agent({ keepAlive: true });

  constructor(private readonly path: string) {}

  send(path: string, headers: Record<string, string>, body: string, signal?: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const options: http.RequestOptions = {
        socketPath: this.path,
        path,
        method: "POST",
        agent: this.agent,
        headers: { host: "localhost", "content-length": Buffer.byteLength(body), ...headers },
      };
      if (signal) options.signal = signal;
      const request = http.request(options, (response) => {
        resolve({ status: response.statusCode ?? 0, chunks: response });
      });
      request.on("error", reject);
      request.end(body);
    });
  }

  close(): void {
    this.agent.destroy();
  }
}
