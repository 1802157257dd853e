// The transform of the compiler asc that belongs to quern.ts. It numbers the columns, context keys and counters that the entry
// file declares as constants, and puts manifest.json, completed by their lists, into the module as the section quern.manifest.

import { Transform } from "assemblyscript/transform";
import { Node } from "assemblyscript";

const key = "[A-Za-z0-9_.-]{1,64}";
const kinds = {
  I64Column: { list: "columns", name: new RegExp(`^(submission_id|priority|age_ms|(meta_i64|limit):${key})$`) },
  U32Column: { list: "columns", name: new RegExp(`^(index|attempts|max_attempts|available|total|skipped|inflight_submission|inflight:${key})$`) },
  StrColumn: { list: "columns", name: new RegExp(`^meta_str:${key}$`) },
  ContextI64: { list: "context", name: new RegExp(`^${key}$`), type: "i64" },
  ContextStr: { list: "context", name: new RegExp(`^${key}$`), type: "str" },
  Counter: { list: "counters", name: /^[a-z][a-z0-9_]{0,47}$/ },
};

export default class Quern extends Transform {
  lists = { columns: [], context: [], counters: [] };

  afterParse(parser) {
    const found = [];
    for (const source of parser.sources.filter((s) => s.sourceKind === 1)) { // the entry files
      for (const statement of source.statements) {
        for (const { initializer } of statement.declarations ?? []) {
          const kind = kinds[initializer?.typeName?.identifier?.text];
          if (kind) found.push([kind, initializer]);
        }
      }
    }
    for (const [kind, made] of found) {
      const name = made.args[0]?.value;
      if (typeof name !== "string" || !kind.name.test(name)) {
        throw new Error(`quern: ${made.range.source.normalizedPath}: ${made.typeName.identifier.text} takes a name that Quern has for it, in quotes; not ${JSON.stringify(name)}`);
      }
      if (this.lists[kind.list].some((other) => (other.key ?? other) === name)) throw new Error(`quern: ${name} is declared twice`);
      this.lists[kind.list].push(kind.list === "context" ? { key: name, type: kind.type } : name);
    }
    const next = { columns: 0, context: this.lists.columns.length, counters: 0 };
    for (const [kind, made] of found) {
      made.args[1] = Node.createIntegerLiteralExpression(i64_new(next[kind.list]++, 0), made.range);
    }
  }

  async afterCompile(module) {
    const text = await this.readFile("manifest.json", this.baseDir);
    if (text === null) throw new Error("quern: there is no manifest.json beside asconfig.json; name and version go there");
    const manifest = JSON.parse(text);
    for (const list of Object.keys(this.lists)) {
      if (list in manifest) throw new Error(`quern: manifest.json has ${list}, which the constants of the entry file declare`);
    }
    module.addCustomSection("quern.manifest", new TextEncoder().encode(JSON.stringify({ ...manifest, abi: 1, ...this.lists })));
  }
}
