// Server-sent events read with `fetch`: faster than `EventSource`, and it can send a key and a body.

/** One event of a stream. */
export interface StreamEvent {
  event: string;
  data: string;
}

/** Cuts a stream of text into its events, whatever the pieces are. */
export class EventParser {
  private rest = "";

  /** Takes a piece and returns the events that are complete. */
  push(piece: string): StreamEvent[] {
    this.rest += piece;
    const events: StreamEvent[] = [];
    for (;;) {
      const end = this.rest.indexOf("\n\n");
      if (end < 0) return events;
      const block = this.rest.slice(0, end);
      this.rest = this.rest.slice(end + 2);
      let event = "message";
      const data: string[] = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) event = line.slice(7);
        else if (line.startsWith("data: ")) data.push(line.slice(6));
      }
      if (data.length > 0) events.push({ event, data: data.join("\n") });
    }
  }
}
