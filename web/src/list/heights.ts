// Where rows are in a list of which only a window is built: measured heights where they are known, guesses elsewhere. Pure.

export class Heights {
  private readonly known = new Map<number, number>();
  private tops: number[] = [0];
  private keys: number[] = [];
  private valid = 0;

  constructor(private readonly guess: (index: number) => number) {}

  /** Takes the keys of all rows. Cheap where rows were only added at the end. */
  setKeys(keys: number[]): void {
    if (keys.length < this.keys.length || keys[0] !== this.keys[0]) this.valid = 0;
    this.keys = keys;
    this.valid = Math.min(this.valid, keys.length);
  }

  /** Records the height of a row. Returns by how much it differs from what was assumed. */
  measure(index: number, height: number): number {
    const key = this.keys[index];
    if (key === undefined) return 0;
    const before = this.of(index);
    if (before === height && this.known.has(key)) return 0;
    this.known.set(key, height);
    this.valid = Math.min(this.valid, index);
    return height - before;
  }

  of(index: number): number {
    const key = this.keys[index];
    return (key === undefined ? undefined : this.known.get(key)) ?? this.guess(index);
  }

  /** Returns where a row begins; that of the row behind the last is the whole height. */
  top(index: number): number {
    while (this.valid < index) {
      this.tops[this.valid + 1] = (this.tops[this.valid] ?? 0) + this.of(this.valid);
      this.valid += 1;
    }
    return this.tops[index] ?? 0;
  }

  total(): number {
    return this.top(this.keys.length);
  }

  /** Returns the row at a height. */
  at(y: number): number {
    this.total();
    let low = 0;
    let high = Math.max(0, this.keys.length - 1);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.tops[middle] ?? 0) <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
