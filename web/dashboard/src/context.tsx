import { valueOf, valueText } from './api'
import { refine, route } from './state'
import type { Meta, MetaValue } from './types'

/** One KEY=VALUE a line; a whole number is the integer, s:7 the text. The first line that is none is named. */
export function metaOf(text: string): { meta: Meta; wrong?: string } {
  const meta: Record<string, MetaValue> = {}
  for (const line of text.split('\n').map((l) => l.trim()).filter(Boolean)) {
    const cut = line.indexOf('=')
    if (cut < 1) return { meta, wrong: `“${line}” is not KEY=VALUE` }
    const raw = line.slice(cut + 1)
    meta[line.slice(0, cut)] = valueOf(raw)
  }
  return { meta }
}

/** The pairs as the command line has them, each behind its flag. */
export const pairFlags = (flag: string, meta: Meta) => Object.entries(meta).flatMap(([k, v]) => [flag, `${k}=${valueText(v)}`])

/** The consumer's context for plugins and formulas, as the address has it: for a body, for the command line, and the faulty line. */
export function useContextPairs() {
  const text = route.value.query.get('context') ?? ''
  const { meta, wrong } = metaOf(text)
  return { text, wrong, body: Object.keys(meta).length > 0 ? { context: meta } : {}, flags: pairFlags('--context', meta) }
}

export function ContextField({ text, wrong }: { text: string; wrong?: string | undefined }) {
  return (
    <label class="field grow">Context of the consumer, KEY=VALUE a line
      <textarea class="mono" rows={1 + text.split('\n').length} spellcheck={false} value={text} placeholder="warm_model=llama" onInput={(e) => refine({ context: e.currentTarget.value || undefined })} />
      {wrong && <span class="problem" role="alert">{wrong}</span>}
    </label>
  )
}
