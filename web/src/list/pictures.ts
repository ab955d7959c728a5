// The pictures of a prompt. Rows keep the names of files only, so that a transcript stays small: a picture is read from the
// journal again while its row is built, with the page's key, and shown from memory. Knows nothing of rows.
import { visible } from "../text/visible.ts";
import { readEvents } from "../wire/call.ts";

/** What is shown as a picture. Not SVG: it is a document. */
const SHOWN = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** Longest picture that is shown, as base64: all files of a prompt together have no more. */
const CONTENT_MAX = 3_000 * 1024;

export interface AttachedFile {
  name: string;
  media_type: string;
}

interface EventsPage {
  events: { seq: number; attachments?: (AttachedFile & { content?: string })[] }[];
}

/** Returns a file's name and kind. */
export function captionOf(file: AttachedFile): string {
  return visible(`${file.name} (${file.media_type})`);
}

/** Returns whether a file is shown as a picture. */
export function isPicture(file: AttachedFile): boolean {
  return SHOWN.has(file.media_type);
}

/** The pictures of one event of a session. */
export class Pictures {
  private readonly boxes = new Map<number, { image: HTMLImageElement; caption: HTMLElement }>();
  private readonly urls: string[] = [];
  private isGone = false;

  /** Makes the box of a file; its picture comes with `load`. The box has its height from the start, so that nothing moves. */
  box(at: number, file: AttachedFile): HTMLElement {
    const figure = document.createElement("figure");
    const button = document.createElement("button");
    const image = document.createElement("img");
    const caption = document.createElement("figcaption");
    figure.className = "attachment";
    button.type = "button";
    button.className = "picture";
    button.title = "Show it larger or smaller";
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") !== "true")));
    image.alt = visible(file.name);
    button.append(image);
    caption.textContent = captionOf(file);
    figure.append(button, caption);
    this.boxes.set(at, { image, caption });
    return figure;
  }

  /** Reads the pictures of the event. What cannot be shown keeps its name and says why. */
  async load(session: string, seq: number): Promise<void> {
    let page: EventsPage;
    try {
      page = await readEvents<EventsPage>(session, seq - 1, 1);
    } catch (error) {
      for (const at of this.boxes.keys()) this.refuse(at, error instanceof Error ? error.message : String(error));
      return;
    }
    const files = page.events.find((event) => event.seq === seq)?.attachments ?? [];
    for (const [at, { image }] of this.boxes) {
      const file = files[at];
      const bytes = file === undefined || !isPicture(file) ? null : decoded(file.content ?? "");
      if (bytes === null || this.isGone) {
        this.refuse(at, "it is not in the journal");
        continue;
      }
      const url = URL.createObjectURL(new Blob([bytes], { type: file?.media_type ?? "" }));
      this.urls.push(url);
      image.addEventListener("error", () => this.refuse(at, "the browser cannot read it"), { once: true });
      image.src = url;
    }
  }

  destroy(): void {
    this.isGone = true;
    for (const url of this.urls) URL.revokeObjectURL(url);
    this.urls.length = 0;
  }

  private refuse(at: number, why: string): void {
    const box = this.boxes.get(at);
    if (box === undefined || this.isGone) return;
    box.image.parentElement?.remove();
    box.caption.textContent += ` is not shown: ${why}`;
  }
}

/** Returns the bytes of a base64 text, unless it is too long or none. */
function decoded(content: string): Uint8Array<ArrayBuffer> | null {
  if (content === "" || content.length > CONTENT_MAX) return null;
  try {
    return Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  } catch {
    return null;
  }
}
