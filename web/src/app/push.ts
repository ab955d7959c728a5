// Notices that reach this browser while no page is open: the daemon sends them through the push service of the browser's maker.
import { call } from "../wire/call.ts";

interface PushKey {
  public_key: string;
  subscribed: boolean;
}

/** Whether this browser can be pushed to. */
export function canPush(): boolean {
  return "serviceWorker" in navigator && "PushManager" in window && "Notification" in window;
}

export async function isSubscribed(): Promise<boolean> {
  try {
    return (await call<PushKey>("obey.v1.PushService/GetPushKey")).subscribed;
  } catch {
    return false;
  }
}

/** Subscribes this browser. Throws with a sentence where that cannot be. */
export async function subscribe(): Promise<void> {
  if ((await Notification.requestPermission()) !== "granted") throw new Error("The browser does not allow notices for this page.");
  const { public_key } = await call<PushKey>("obey.v1.PushService/GetPushKey");
  const worker = await navigator.serviceWorker.ready;
  const made = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: public_key });
  const { endpoint, keys } = made.toJSON();
  await call("obey.v1.PushService/Subscribe", { endpoint, p256dh: keys?.["p256dh"] ?? "", auth: keys?.["auth"] ?? "" });
}

export async function unsubscribe(): Promise<void> {
  await call("obey.v1.PushService/Unsubscribe");
  const worker = await navigator.serviceWorker.getRegistration();
  await (await worker?.pushManager.getSubscription())?.unsubscribe();
}
