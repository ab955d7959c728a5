// The transcript on the screen: builds the rows around what is visible, follows the end only while the reader is there, and
// otherwise keeps the row under the reader's eyes where it is. The only writer of `scrollTop`.
import type { Row } from "../fold/row.ts";
import { Heights } from "./heights.ts";

/** A row that is built. */
export interface RowView {
  element: HTMLElement;
  /** Shows the row as it is now. */
  update(row: Row): void;
  destroy?(): void;
}

interface Built {
  view: RowView;
  last: number;
  closed: boolean;
}

/** The first visible row, and how far the top of the screen is from its beginning and from its end. */
interface Anchor {
  index: number;
  key: number;
  offset: number;
  toEnd: number;
}

/** Rows are all built up to this number: the browser's own search then finds everything. */
const ALL_BUILT_MAX = 300;
/** And up to this height: few rows can be very long. */
const ALL_BUILT_MAX_PX = 60_000;
const OVERSCAN_PX = 1_200;
const END_SLACK_PX = 24;

export class TranscriptList {
  private rows: Row[] = [];
  private readonly built = new Map<number, Built>();
  private readonly heights = new Heights((index) => guess(this.rows[index]));
  private readonly before = document.createElement("div");
  private readonly after = document.createElement("div");
  private readonly resized: ResizeObserver;
  private following = true;
  private seen = 0;
  private scheduled = false;
  private ownScroll = -1;
  /** The first visible row as it was shown last, and how far the rows were scrolled then. */
  private kept: { anchor: Anchor | null; scrollTop: number } | null = null;
  private isWhole = false;
  private isGone = false;
  /** The height of the screen; asked for when it changes, because asking may cost a layout. */
  private viewHeight = 0;

  constructor(
    private readonly scroller: HTMLElement,
    private readonly content: HTMLElement,
    private readonly make: (row: Row) => RowView,
    private readonly onFollow: (following: boolean, unseen: number) => void,
    private readonly onTop: () => void,
  ) {
    this.before.className = this.after.className = "spacer";
    content.replaceChildren(this.before, this.after);
    scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    // One notch up stops following at once, before the scroll arrives.
    scroller.addEventListener("wheel", (event) => event.deltaY < 0 && this.setFollowing(false), { passive: true });
    this.resized = new ResizeObserver((entries) => entries.filter((entry) => this.isNews(entry)).length > 0 && this.schedule());
    this.resized.observe(scroller);
    this.viewHeight = scroller.clientHeight;
  }

  /** Shows these rows. Rows are only added, grown, or put in front. */
  update(rows: Row[]): void {
    // Folded again from an earlier event: what a row says may have changed without an event of its own.
    if (rows !== this.rows) for (const known of this.built.values()) known.last = -1;
    this.rows = rows;
    if (this.following) this.seen = rows.length;
    this.heights.setKeys(rows.map((row) => row.key));
    this.render();
    if (!this.following) this.onFollow(false, Math.max(0, rows.length - this.seen));
  }

  /** Shows every row again: what is folded has changed. */
  refresh(): void {
    for (const known of this.built.values()) known.last = -1;
    this.render();
  }

  /** Goes to the end and stays there. */
  toEnd(): void {
    this.setFollowing(true);
    this.render();
  }

  /** Shows the row of an event. */
  toEvent(seq: number): void {
    let index = this.rows.findIndex((row) => row.last >= seq);
    if (index < 0) index = this.rows.length - 1;
    if (index < 0) return;
    this.setFollowing(false);
    this.scrollTo(this.heights.top(index) + this.padding());
    this.render();
    // Heights were guesses until the rows were built.
    this.scrollTo(this.heights.top(index) + this.padding());
    const view = this.built.get(this.rows[index]?.key ?? -1)?.view;
    view?.element.classList.add("marked");
  }

  /** Goes to the row before or behind the top of the screen that is of a kind. */
  step(direction: 1 | -1, isWanted: (row: Row) => boolean): void {
    let index = this.heights.at(this.scroller.scrollTop + 1) + direction;
    while (index >= 0 && index < this.rows.length) {
      const row = this.rows[index];
      if (row && isWanted(row)) return this.toEvent(row.key);
      index += direction;
    }
    if (direction > 0) this.toEnd();
  }

  toTop(): void {
    this.setFollowing(false);
    this.scrollTo(0);
    this.render();
  }

  /** Builds every row, for paper; or only those around the screen again. */
  showWhole(isWhole: boolean): void {
    this.isWhole = isWhole;
    this.render();
  }

  /** Returns the event of the first visible row. */
  firstVisible(): number | null {
    return this.anchor()?.key ?? null;
  }

  pageBy(direction: 1 | -1): void {
    if (direction < 0) this.setFollowing(false);
    this.scrollTo(this.scroller.scrollTop + direction * this.scroller.clientHeight * 0.9);
  }

  destroy(): void {
    this.isGone = true;
    this.resized.disconnect();
    for (const { view } of this.built.values()) view.destroy?.();
    this.built.clear();
  }

  private setFollowing(following: boolean): void {
    if (this.following === following) return;
    this.following = following;
    this.seen = this.rows.length;
    this.onFollow(following, 0);
  }

  private scrolled(): void {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    if (Math.abs(scrollTop - this.ownScroll) > 1) {
      this.setFollowing(scrollTop + clientHeight >= scrollHeight - END_SLACK_PX);
    }
    this.schedule();
  }

  /** Whether a size is not the one that was measured when the rows were shown: while text streams, it always is. */
  private isNews(entry: ResizeObserverEntry): boolean {
    if (entry.target === this.scroller) this.viewHeight = this.scroller.clientHeight;
    const index = this.indexOf(Number((entry.target as HTMLElement).dataset["seq"] ?? -1));
    return index < 0 || Math.abs((entry.borderBoxSize[0]?.blockSize ?? 0) - this.heights.of(index)) >= 0.5;
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.render();
    });
  }

  private scrollTo(top: number): void {
    this.scroller.scrollTop = top;
    this.ownScroll = this.scroller.scrollTop;
  }

  private render(): void {
    // A frame that was asked for may come after the screen has gone.
    if (this.isGone) return;
    const anchor = this.following ? null : this.lastAnchor();
    const [from, to] = this.window(anchor);
    this.build(from, to);
    this.before.style.height = `${this.heights.top(from)}px`;
    this.measure(from, to);
    this.before.style.height = `${this.heights.top(from)}px`;
    this.after.style.height = `${Math.max(0, this.heights.total() - this.heights.top(to))}px`;
    if (this.following) {
      this.scrollTo(this.scroller.scrollHeight);
    } else if (anchor) {
      const wanted = this.placeOf(anchor);
      if (wanted !== null && Math.abs(wanted - this.scroller.scrollTop) >= 0.5) this.scrollTo(wanted);
    }
    this.kept = this.following ? null : { anchor: this.anchor(), scrollTop: this.scroller.scrollTop };
    // There must be something to scroll back to, also where a screen full of rows has not been read yet.
    if (this.rows.length > 0 && this.scroller.scrollTop < OVERSCAN_PX) this.onTop();
  }

  /** The row under the reader's eyes when the rows were shown last, unless somebody has scrolled: a row above may have grown since. */
  private lastAnchor(): Anchor | null {
    return this.kept !== null && this.kept.scrollTop === this.scroller.scrollTop ? this.kept.anchor : this.anchor();
  }

  /** Where the screen must begin so that the anchored row does not move. */
  private placeOf(anchor: Anchor): number | null {
    const index = this.rows[anchor.index]?.key === anchor.key ? anchor.index : this.indexOf(anchor.key);
    if (index >= 0) return this.heights.top(index) + this.padding() + anchor.offset;
    // A row whose beginning was read only now has another key and has grown at its top: its end stays.
    const grown = this.rows.findIndex((row) => row.key <= anchor.key && row.last >= anchor.key);
    return grown < 0 ? null : this.heights.top(grown + 1) + this.padding() - anchor.toEnd;
  }

  /** What is above the first row. */
  private padding(): number {
    return this.content.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top + this.scroller.scrollTop;
  }

  /** The first visible row, and how far the top of the screen is into it. */
  private anchor(): Anchor | null {
    const top = this.scroller.getBoundingClientRect().top;
    let best: Anchor | null = null;
    for (const [key, { view }] of this.built) {
      const box = view.element.getBoundingClientRect();
      if (box.bottom <= top) continue;
      if (best === null || key < best.key) best = { index: this.indexOf(key), key, offset: top - box.top, toEnd: box.bottom - top };
    }
    if (best !== null) return best;
    const fromFirst = this.scroller.scrollTop - this.padding();
    const index = this.heights.at(fromFirst);
    const row = this.rows[index];
    return row ? { index, key: row.key, offset: fromFirst - this.heights.top(index), toEnd: this.heights.top(index + 1) - fromFirst } : null;
  }

  /** Returns where a row is; keys ascend. */
  private indexOf(key: number): number {
    let low = 0;
    let high = this.rows.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const found = this.rows[middle]?.key ?? 0;
      if (found === key) return middle;
      if (found < key) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }

  private window(anchor: Anchor | null): [number, number] {
    const count = this.rows.length;
    if (this.isWhole || (count <= ALL_BUILT_MAX && this.heights.total() <= ALL_BUILT_MAX_PX)) return [0, count];
    const height = this.viewHeight;
    // Rows that were put in front move the others: what counts is where the anchored row will be.
    const place = anchor === null ? null : this.placeOf(anchor);
    const top = this.following ? this.heights.total() - height : (place ?? this.scroller.scrollTop);
    const from = this.heights.at(Math.max(0, top - OVERSCAN_PX));
    const to = Math.min(count, this.heights.at(top + height + OVERSCAN_PX) + 1);
    return [from, to];
  }

  private build(from: number, to: number): void {
    const wanted = new Set<number>();
    let place: ChildNode | null = this.before.nextSibling;
    for (let index = from; index < to; index += 1) {
      const row = this.rows[index];
      if (!row) continue;
      wanted.add(row.key);
      const closed = "closed" in row && row.closed;
      let known = this.built.get(row.key);
      if (!known) {
        known = { view: this.make(row), last: row.last, closed };
        known.view.element.dataset["seq"] = String(row.key);
        this.built.set(row.key, known);
        this.resized.observe(known.view.element);
      } else if (known.last !== row.last || known.closed !== closed) {
        known.view.update(row);
        known.last = row.last;
        known.closed = closed;
      }
      if (place === known.view.element) place = place.nextSibling;
      else this.content.insertBefore(known.view.element, place);
    }
    for (const [key, { view }] of this.built) {
      // What has the focus stays: nobody's words are lost by scrolling.
      if (wanted.has(key) || view.element.contains(document.activeElement)) continue;
      this.resized.unobserve(view.element);
      view.destroy?.();
      view.element.remove();
      this.built.delete(key);
    }
  }

  private measure(from: number, to: number): void {
    for (let index = from; index < to; index += 1) {
      const view = this.built.get(this.rows[index]?.key ?? -1)?.view;
      if (view) this.heights.measure(index, view.element.getBoundingClientRect().height);
    }
  }
}

function guess(row: Row | undefined): number {
  switch (row?.kind) {
    case "text":
      return 24 + Math.ceil(row.text.length / 90) * 22;
    case "edit":
      return 60 + row.files.reduce((sum, file) => sum + Math.min(20, file.lines.length) * 19, 0);
    case "request":
      return row.open ? 220 : 36;
    default:
      return 40;
  }
}
