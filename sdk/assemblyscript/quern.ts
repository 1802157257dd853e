// The guest SDK for AssemblyScript, for scoring plugins of Quern.
//
//     import { Batch, I64Column } from "quern-plugin/quern";
//     export { quern_abi_1, quern_alloc } from "quern-plugin/quern";
//
//     const priority = new I64Column("priority");
//     const deadline = new I64Column("meta_i64:deadline_ms");
//
//     export function quern_score(b: Batch): i32 {
//       const p = priority.of(b), due = deadline.of(b), known = deadline.valid(b), scores = b.scores;
//       for (let i: u32 = 0; i < b.rows; i++) {
//         scores[i] = <f64>p[i] + (known[i] ? 1e6 / <f64>max<i64>(1, due[i] - b.now) : 0.0);
//       }
//       return 0;
//     }
//
// Columns are constants of the entry file; the transform quern.mjs numbers them and writes the manifest's lists from them, so
// that code and manifest agree. Views such as priority.of(b) cost nothing and hold no memory, but are valid during the call only.
// With the preset's runtime "stub" nothing is ever freed: make strings, arrays and objects in quern_init, not in quern_score.

@external("quern_v1", "log") declare function hostLog(level: i32, text: usize, size: usize): void;
@external("quern_v1", "log_enabled") declare function hostLogEnabled(level: i32): i32;
@external("quern_v1", "metric_add") declare function hostMetricAdd(id: i32, v: f64): void;
@external("quern_v1", "intern") declare function hostIntern(column: i32, text: usize, size: usize): u32;
@external("quern_v1", "str") declare function hostStr(id: u32, buf: usize, size: usize): i32;

/** The marker of version 1; never called. Re-export it. */
export function quern_abi_1(): void {}

/** Room for the host, never given back. Re-export it. */
export function quern_alloc(size: usize): usize {
  return heap.alloc(size);
}

/** One value per candidate. The index is not checked against the number of rows. */
@unmanaged
export class View<T> {
  @inline @operator("[]") at(i: u32): T {
    return load<T>(changetype<usize>(this) + (<usize>i << alignof<T>()));
  }
  @inline @operator("[]=") put(i: u32, v: T): void {
    store<T>(changetype<usize>(this) + (<usize>i << alignof<T>()), v);
  }
}

/** The header of a batch, over the bytes that the host wrote. */
@unmanaged
export class Batch {
  private magic: u32;
  private headerSize: u32;
  /** Candidates. */
  rows: u32;
  private columnCount: u32;
  private descriptorsAt: u32;
  private scoresAt: u32;
  /** Milliseconds since 1970; it does not move during the call. */
  now: i64;
  /** The only source of chance: the same batch scored again has the same. */
  seed: u64;
  /** Chunks that will be taken. */
  want: u32;
  /** DRY_RUN, SHADOW. */
  flags: u32;

  /** Where the scores go: larger goes first, NaN passes the candidate over in this window. */
  @inline get scores(): View<f64> {
    return changetype<View<f64>>(changetype<usize>(this) + this.scoresAt);
  }

  /** The address of a column's descriptor. */
  @inline descriptor(index: i32): usize {
    return changetype<usize>(this) + this.descriptorsAt + (<usize>index << 4);
  }
}

/** The scores are not acted on. */
export const DRY_RUN: u32 = 1;
/** The scores are only compared with those of another version. */
export const SHADOW: u32 = 2;

function values(b: Batch, index: i32, type: u16): usize {
  const d = b.descriptor(index);
  if (index < 0) throw new Error("the transform quern.mjs has not run: see asconfig.json of the SDK");
  if (load<u16>(d, 4) != type) throw new Error("a column is read with a type that it does not have");
  return changetype<usize>(b) + load<u32>(d);
}

function validity(b: Batch, index: i32): View<bool> {
  const at = load<u32>(b.descriptor(index), 8);
  if (at == 0) throw new Error("only meta columns may be absent; this one has a value for every candidate");
  return changetype<View<bool>>(changetype<usize>(b) + at);
}

/** submission_id, priority, age_ms, meta_i64:KEY, limit:KEY. */
export class I64Column {
  constructor(public name: string, private index: i32 = -1) {}
  /** One value per candidate, 0 where it is absent. */
  of(b: Batch): View<i64> {
    return changetype<View<i64>>(values(b, this.index, 1));
  }
  /** Which candidates have the value; meta columns only. */
  valid(b: Batch): View<bool> {
    return validity(b, this.index);
  }
}

/** index, attempts, max_attempts, available, total, skipped, inflight_submission, inflight:KEY. */
export class U32Column {
  constructor(public name: string, private index: i32 = -1) {}
  /** One value per candidate. */
  of(b: Batch): View<u32> {
    return changetype<View<u32>>(values(b, this.index, 2));
  }
}

let strings: i32 = -1;

/** meta_str:KEY. */
export class StrColumn {
  constructor(public name: string, private index: i32 = -1) {
    strings = index;
  }
  /** One id per candidate: equal ids are equal strings, in all string columns of the batch; 0 is absent. */
  of(b: Batch): View<u32> {
    return changetype<View<u32>>(values(b, this.index, 4));
  }
}

/** A whole number of the reservation's context. */
export class ContextI64 {
  constructor(public key: string, private index: i32 = -1) {}
  /** The number; 0 when the reservation does not carry it. */
  of(b: Batch): i64 {
    return load<i64>(values(b, this.index, 1));
  }
  /** Whether the reservation carries it. */
  given(b: Batch): bool {
    return validity(b, this.index)[0];
  }
}

/** A string of the reservation's context. */
export class ContextStr {
  constructor(public key: string, private index: i32 = -1) {
    strings = index;
  }
  /** The string's id; 0 when the reservation does not carry it. */
  of(b: Batch): u32 {
    return load<u32>(values(b, this.index, 4));
  }
}

/** A number that the host adds up over all instances and shows as a metric. */
export class Counter {
  constructor(public name: string, private index: i32 = -1) {}
  /** Adds v, which is finite and not negative; other values are dropped. */
  add(v: f64): void {
    hostMetricAdd(this.index, v);
  }
}

export const enum Level { Debug, Info, Warn, Error }

/** Writes one line to the plugin's log. The host keeps 1 KiB of it and 32 lines per batch. */
export function log(level: Level, text: string): void {
  const bytes = String.UTF8.encode(text);
  hostLog(level, changetype<usize>(bytes), bytes.byteLength);
}

/** Whether the host keeps lines of that level; if not, there is no need to build them. */
export function logEnabled(level: Level): bool {
  return hostLogEnabled(level) != 0;
}

/** The id that every string column will carry for text, for the life of the instance; only in quern_init. 0 means that the
 * dictionary is full (4,096 strings) or that no string column is used, and equals no string. */
export function intern(text: string): u32 {
  const bytes = String.UTF8.encode(text);
  return strings < 0 ? 0 : hostIntern(strings, changetype<usize>(bytes), bytes.byteLength);
}

/** The string of an id, null when it is not known. It makes a string: comparing ids is 40 times cheaper. */
export function text(id: u32): string | null {
  const buf = new StaticArray<u8>(1024);
  const n = hostStr(id, changetype<usize>(buf), 1024);
  return n < 0 ? null : String.UTF8.decodeUnsafe(changetype<usize>(buf), n);
}

/** A value of the configuration, as canonical JSON: no spaces, keys sorted. The host has checked it against the schema. */
export class Value {
  constructor(private json: string) {}

  /** The configuration that quern_init gets. */
  static over(at: usize, size: usize): Value {
    return new Value(String.UTF8.decodeUnsafe(at, size));
  }

  /** Whether there is a value. */
  get there(): bool {
    return this.json.length > 0;
  }

  /** The value under a key of an object; if it is missing, `there` is false. */
  get(key: string): Value {
    const keys = this.keys();
    const i = keys.indexOf(key);
    return i < 0 ? new Value("") : this.values()[i];
  }

  /** The keys of an object. */
  keys(): string[] {
    const all = this.parts();
    const keys: string[] = [];
    for (let i = 0; i < all.length; i += 2) keys.push(new Value(all[i]).text());
    return keys;
  }

  /** The values of an object, in the order of its keys. */
  values(): Value[] {
    const all = this.parts();
    const found: Value[] = [];
    for (let i = 1; i < all.length; i += 2) found.push(new Value(all[i]));
    return found;
  }

  /** The number, or otherwise if it is missing. */
  number(otherwise: f64): f64 {
    return this.there ? F64.parseFloat(this.json) : otherwise;
  }

  /** The truth value, or otherwise if it is missing. */
  truth(otherwise: bool): bool {
    return this.there ? this.json == "true" : otherwise;
  }

  /** The string, "" when it is none. */
  text(): string {
    const s = this.json;
    if (!s.startsWith('"')) return "";
    let out = "";
    for (let i = 1; i < s.length - 1; i++) {
      let c = s.charAt(i);
      if (c == "\\") {
        c = s.charAt(++i);
        if (c == "n") c = "\n";
        else if (c == "t") c = "\t";
        else if (c == "r") c = "\r";
        else if (c == "b") c = "\b";
        else if (c == "f") c = "\f";
        else if (c == "u") {
          c = String.fromCharCode(I32.parseInt(s.substring(i + 1, i + 5), 16));
          i += 4;
        }
      }
      out += c;
    }
    return out;
  }

  /** Keys and values of an object, one after the other. */
  private parts(): string[] {
    const s = this.json;
    const parts: string[] = [];
    if (!s.startsWith("{") || s.length == 2) return parts;
    let depth = 0, quoted = false, from = 1;
    for (let i = 1; i < s.length; i++) {
      const c = s.charCodeAt(i);
      if (c == 0x5c) i++; // a backslash
      else if (c == 0x22) quoted = !quoted;
      else if (quoted) continue;
      else if (depth == 0 && (c == 0x2c || c == 0x3a || c == 0x7d)) { // , : }
        parts.push(s.substring(from, i));
        from = i + 1;
      } else if (c == 0x7b || c == 0x5b) depth++; // { [
      else if (c == 0x7d || c == 0x5d) depth--; // } ]
    }
    return parts;
  }
}
