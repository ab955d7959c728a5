// The service worker: it keeps the shell of the page and shows what is pushed.

interface ScriptUrlPolicy {
  createScriptURL(url: string): string;
}
interface TrustedTypes {
  createPolicy(name: string, rules: ScriptUrlPolicy): ScriptUrlPolicy;
}

const WORKER = "/service-worker.js";

/** Registers the worker. A browser without one shows the page all the same. */
export async function registerWorker(): Promise<ServiceWorkerRegistration | null> {
  if (!("serviceWorker" in navigator)) return null;
  const trusted = (window as unknown as { trustedTypes?: TrustedTypes }).trustedTypes;
  try {
    const policy = trusted?.createPolicy("obey-worker", { createScriptURL: () => WORKER });
    return await navigator.serviceWorker.register(policy?.createScriptURL(WORKER) ?? WORKER);
  } catch {
    return null;
  }
}
