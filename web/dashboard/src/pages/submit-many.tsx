import { useMemo, useRef, useState } from 'preact/hooks'
import { curl, queuePath, quern, send } from '../api'
import { amount, clamped, exact, grouped } from '../format'
import { read } from '../json'
import { Table } from '../list'
import { useAction } from '../live'
import { CopyAs } from '../copy'
import { Failed } from '../parts'
import { link, queue, say } from '../state'
import type { Submission } from '../types'

/** One line of the text: the JSON to send, or why it cannot be sent. */
interface Line { number: number; text: string; wrong?: string; ownKey?: boolean }
interface Result { status: 'created' | 'replayed' | 'invalid' | 'refused'; submission?: Submission; code?: string; detail?: string; pointer?: string }
interface Told { line: Line; result: Result }

const perCall = 1000
const bytesPerCall = 4 << 20
const mostLines = 10_000
const mostRows = 200

/** Checks only that each line is an object with chunks. The server checks the rest. */
function linesOf(text: string): Line[] {
  return text.split('\n').map((whole, i) => lineOf(whole.trim(), i + 1)).filter((line) => line.text !== '')
}

function lineOf(text: string, number: number): Line {
  if (text === '') return { number, text }
  try {
    const value = read<unknown>(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return { number, text, wrong: 'is not a JSON object' }
    if (!('chunks' in value)) return { number, text, wrong: 'has no chunks' }
    return { number, text, ownKey: 'idempotency_key' in value }
  } catch (error) {
    return { number, text, wrong: 'is not JSON: ' + (error instanceof Error ? error.message : String(error)) }
  }
}

/** Cuts the lines into calls. */
function callsOf(lines: Line[]): Line[][] {
  const calls: Line[][] = []
  let size = 0
  for (const line of lines) {
    const last = calls.at(-1)
    size += line.text.length
    if (last && last.length < perCall && size <= bytesPerCall) last.push(line)
    else { calls.push([line]); size = line.text.length }
  }
  return calls
}

/** Inserts one submission per line. A line keeps its key until its text changes, so all lines can be sent again: the server inserts only
 * the missing ones. */
export function ManySubmissions() {
  const [text, setText] = useState('')
  const [over, setOver] = useState(false)
  const [told, setTold] = useState<Told[]>()
  const known = useRef(new Map<string, string>())
  const action = useAction()
  const lines = useMemo(() => linesOf(text), [text])
  const wrong = lines.filter((line) => line.wrong)
  const path = `${queuePath(queue.value)}/submissions:batch`
  const take = async (files: FileList | undefined) => {
    if (!files?.[0]) return
    setText(await files[0].text())
    setTold(undefined)
  }
  const insert = () => action.run(async () => {
    const all: Told[] = []
    const keys = keysOf(lines, known.current)
    for (const part of callsOf(lines)) {
      const body = part.map((line) => line.ownKey ? line.text : `${line.text.slice(0, -1)},"idempotency_key":"${keys.get(line)}"}`).join('\n')
      const { results } = await send<{ results: Result[] }>('POST', path, body, { 'Content-Type': 'application/x-ndjson' })
      part.forEach((line, i) => all.push({ line, result: results[i]! }))
      setTold([...all])
    }
    const made = all.filter(({ result }) => result.status === 'created').length
    say(`${exact(made)} of ${amount(all.length, 'submission')} inserted`)
  })
  const refused = told?.filter(({ result }) => !result.submission) ?? []
  const again = () => { setText(refused.map(({ line }) => line.text).join('\n')); setTold(undefined) }
  return (
    <form class="stack" aria-label="Many submissions" onSubmit={(e) => { e.preventDefault(); void insert() }} noValidate
      data-over={over || undefined} onDragOver={(e) => { e.preventDefault(); setOver(true) }} onDragLeave={() => setOver(false)} onDrop={(e) => { e.preventDefault(); setOver(false); void take(e.dataTransfer?.files) }}>
      <label class="stack tight">Submissions, a JSON object a line; paste them, or drop a file
        <textarea class="mono" rows={8} spellcheck={false} value={text} placeholder={'{"meta":{"company":7},"priority":3,"chunks":{"inline":["ash"]}}\n{"chunks":{"count":1000,"prefix":"s3://bucket/run-7/"}}'} onInput={(e) => { setText(e.currentTarget.value); setTold(undefined) }} /></label>
      <p role="status" class="note">{lines.length === 0 ? 'Nothing yet' : `${amount(lines.length, 'submission')}${wrong.length > 0 ? `, ${exact(wrong.length)} of them cannot be sent` : ''}`}</p>
      {wrong.slice(0, 10).map((line) => <p key={line.number} class="wrong" role="alert">Line {line.number} {line.wrong}</p>)}
      {lines.length > mostLines && <p class="wrong" role="alert">At most {exact(mostLines)} lines here; quern submit --jsonl takes any number.</p>}
      <div class="row">
        <button class="main" disabled={action.busy || lines.length === 0 || wrong.length > 0 || lines.length > mostLines}>{told || action.problem ? 'Send again' : 'Insert'}</button>
        {refused.length > 0 && told!.length === lines.length && <button type="button" onClick={again}>Keep the {exact(refused.length)} refused only</button>}
        <CopyAs cli={quern('submit', '--queue', queue.value, '--jsonl', 'submissions.jsonl')} curl={curl('POST', path, { submissions: lines.filter((line) => !line.wrong).slice(0, mostRows).map((line) => read<unknown>(line.text)) })} />
      </div>
      {action.problem && <><Failed problem={action.problem} /><p class="note">Send them again: none is inserted twice.</p></>}
      {told && <Results told={told} refused={refused} />}
    </form>
  )
}

/** The result of each line: first those that were refused. */
function Results({ told, refused }: { told: Told[]; refused: Told[] }) {
  const rows = [...refused, ...told.filter(({ result }) => result.submission)].slice(0, mostRows)
  return (
    <section aria-label="Results" class="stack">
      <p role="status">{exact(told.length - refused.length)} are inserted, {exact(refused.length)} refused.{refused.length > 0 && ' Correct them above and send again. Inserted submissions stay.'}</p>
      <Table name="Result of each line" columns={[{ name: 'Line' }, { name: 'Result' }, { name: 'Submission' }]}
        lines={rows.map(({ line, result }) => ({
          id: String(line.number), cells: () => [
            <td>{line.number}</td>, <td class="wrap">{result.submission ? (result.status === 'replayed' ? 'inserted before' : 'inserted') : <span class="wrong">{place(result)} {grouped(result.detail ?? '')}</span>}</td>,
            <td class="wrap">{result.submission ? <a href={link('submissions/' + result.submission.id)}>{result.submission.id}</a> : <code>{clamped(line.text, 60)}</code>}</td>,
          ],
        }))} />
      {told.length > rows.length && <p class="note">{exact(told.length - rows.length)} more are inserted.</p>}
    </section>
  )
}

/** The field of a refused submission. */
const place = (result: Result) => result.pointer?.replace(/^\/submissions\/\d+/, '') ?? ''

/** Random digits: an insert that is sent again, after a lost answer or a double click, inserts nothing more. */
export const randomKey = () => [...crypto.getRandomValues(new Uint32Array(4))].map((n) => n.toString(36)).join('-')

/** A key for each line, by its text: the same line twice is two submissions. */
function keysOf(lines: Line[], known: Map<string, string>): Map<Line, string> {
  const seen = new Map<string, number>()
  return new Map(lines.map((line) => {
    const n = (seen.get(line.text) ?? 0) + 1
    seen.set(line.text, n)
    const which = `${n} ${line.text}`
    if (!known.has(which)) known.set(which, randomKey())
    return [line, known.get(which)!]
  }))
}
