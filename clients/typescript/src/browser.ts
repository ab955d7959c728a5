// The client in a browser: calls by fetch, to the daemon that served the page or to a given address.

import { type Answer, BaseObeyClient, type ClientOptions, type Transport } from "./client.js";

export * from "./types.js";
export { newKey } from "./client.js";
export type { ClientOptions } from "./client.js";

export interface BrowserOptions extends ClientOptions {
  /** Such as https://host:8443; by default the page's own origin. */
  address?: string;
}

export class ObeyClient extends BaseObeyClient {
  constructor(options: BrowserOptions = {}) {
    super(new FetchTransport(options.address ?? globalThis.location?.origin ?? ""), options);
  }
}

/** Calls by fetch. */
export class FetchTransport implements Transport {
  constructor(private readonly origin: string) {}

  async send(path: string, headers: Record<string, string>, body: string, signal?: AbortSignal): Promise<Answer> {
    const init: RequestInit = { method: "POST", headers, body };
    if (signal) init.signal = signal;
    const response = await fetch(this.origin + path, init);
    return { status: response.status, chunks: chunks(response.body) };
  }

  close(): void {}
}

async function* chunks(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.releaseLock();
  }
}
