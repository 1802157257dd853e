import { useEffect, useState } from 'preact/hooks'
import { Gate } from '../access'
import { call, curl, type Problem, quern, queuePath } from '../api'
import { amount, exact, keyName, moment, percent, short, shown } from '../format'
import { write } from '../json'
import { Table } from '../list'
import { useAction, useLive } from '../live'
import { Confirm } from '../confirm'
import { ContextField, useContextPairs } from '../context'
import { CopyAs } from '../copy'
import { Outcome, useEdit, type Version } from '../edit'
import { Count, Empty, Failed, MetaChips, SubmissionLink, Unscored, Width } from '../parts'
import { lacks } from '../session'
import { link, queue, refine, route, say } from '../state'
import { Clamp } from '../text'
import { StrategyTree } from './strategy-tree'
import type { Comparison, Explained, NamedStrategy, Page, Pick, Preview, Refused, Spread, Valid } from '../types'

const first = 'OrElse(SelectOnly("mode", "preview", Random), OldestFirst)'

type Answer = { kind: 'explain'; of: Explained } | { kind: 'preview'; of: Preview } | { kind: 'compare'; of: Comparison }

export function Strategies() {
  const q = route.value.query
  const text = q.get('text') ?? first
  const other = q.get('other') ?? 'Random'
  const context = useContextPairs()
  const path = `${queuePath(queue.value)}/strategies`
  const [answer, setAnswer] = useState<Answer>()
  const [name, setName] = useState('')
  const [from, setFrom] = useState<From>() // the named strategy with which the edit began
  const action = useAction()
  const { said, problem } = useValid(text, path)
  const plugins = useLive<Page<{ name: string }>>('/v1/plugins', 0)
  const named = useLive<Page<NamedStrategy>>(`${path}?limit=100`, 10)
  const ask = (kind: Answer['kind'], b = other) => action.run(async () => {
    const body = kind === 'compare' ? { a: text, b, max: 100, ...context.body } : { strategy: text, max: 20, ...context.body }
    setAnswer({ kind, of: await call(`POST`, `${path}/${kind}`, body) } as Answer)
  })
  const blocked = action.busy || context.wrong !== undefined
  return (
    <>
      <div class="head"><h1>Strategies</h1><span>try a strategy here; this page reserves nothing</span></div>
      <section class="card w8">
        <header><h2><label for="strategy-text">Strategy</label></h2><CopyAs cli={quern('explain', text, '--queue', queue.value, ...context.flags)} curl={curl('POST', `${path}/explain`, { strategy: text, ...context.body })} /></header>
        <div class="stack">
          <textarea id="strategy-text" rows={3} spellcheck={false} value={text} onInput={(e) => refine({ text: e.currentTarget.value })} />
          <StrategyTree text={text} valid={said?.of === text ? said.valid : undefined} path={path} plugins={plugins.data?.items.map((p) => p.name) ?? []} />
          <Validity text={text} valid={said?.valid} problem={problem} path={path} saved={named.again} name={name} setName={setName} from={from} setFrom={setFrom} />
          <ContextField text={context.text} wrong={context.wrong} />
          <div class="row">
            <button class="main" disabled={blocked} onClick={() => ask('explain')}>Explain</button>
            <button disabled={blocked} onClick={() => ask('preview')}>Preview</button>
            <button disabled={blocked} onClick={() => ask('compare')}>Compare with</button>
            <input class="mono" aria-label="The other strategy" value={other} onInput={(e) => refine({ other: e.currentTarget.value })} spellcheck={false} size={32} />
          </div>
          {action.problem && <Failed problem={action.problem} />}
        </div>
      </section>
      <section class="card w4">
        <header><h2>Named strategies</h2><small>{named.data ? exact(named.data.items.length) : ''}</small></header>
        {named.problem && <Failed problem={named.problem} again={named.again} />}
        {named.data?.items.length === 0 && <Empty command={quern('strategy', 'put', 'nightly', 'OldestFirst', '--queue', queue.value)}>No strategy has a name. You can change a named strategy without changing the consumers that use it.</Empty>}
        <div class="stack">{named.data?.items.map((s) => <Named key={s.name} s={s} path={path} again={named.again} edit={() => { setFrom(s); setName(s.name); refine({ text: s.strategy }) }} compare={blocked ? undefined : () => { refine({ other: s.strategy }); void ask('compare', s.strategy) }} />)}</div>
      </section>
      {answer?.kind === 'explain' && <Tree x={answer.of} />}
      {answer?.kind === 'preview' && <Picks x={answer.of} />}
      {answer?.kind === 'compare' && <Compared x={answer.of} />}
      {!answer && <section class="card w12"><Empty>Explain shows where chunks get stuck. Preview shows the chunks that a consumer would get now. Compare shows how evenly two strategies share.</Empty></section>}
    </>
  )
}

/** The server's check of a text, read a moment after the last key; until then it is about the earlier text. */
function useValid(text: string, path: string): { said: { of: string; valid: Valid } | undefined; problem: Problem | undefined } {
  const [said, setSaid] = useState<{ of: string; valid: Valid }>()
  const [problem, setProblem] = useState<Problem>()
  useEffect(() => {
    const ended = new AbortController()
    const timer = setTimeout(() => {
      call<Valid>('POST', `${path}/validate`, { strategy: text }, {}, ended.signal)
        .then((valid) => { if (!ended.signal.aborted) { setSaid({ of: text, valid }); setProblem(undefined) } })
        .catch((p) => { if (!ended.signal.aborted) { setProblem(p); setSaid(undefined) } })
    }, 250)
    return () => { clearTimeout(timer); ended.abort() }
  }, [text, path])
  return { said, problem }
}

function Validity({ valid, problem, ...save }: { valid: Valid | undefined; problem: Problem | undefined } & Saved) {
  if (problem) return <Failed problem={problem} />
  if (!valid) return <p class="note" role="status">Checking…</p>
  return (
    <div class="stack" role="status">
      <p><span class="state"><i class="mark done" aria-hidden="true" />Valid</span> · asked in this order:</p>
      <pre class="wrap" tabIndex={0} aria-label="Branches">{valid.branches.map((b, i) => `${i + 1}. ${b}`).join('\n')}</pre>
      <details><summary>As JSON</summary><pre class="wrap" tabIndex={0} aria-label="The strategy as JSON">{write(valid.tree, 2)}</pre></details>
      <Gate scope="operate"><SaveAs {...save} /></Gate>
    </div>
  )
}

interface Saved {
  text: string; path: string; saved: () => void; name: string; setName: (name: string) => void
  from: From | undefined; setFrom: (s: From) => void
}

interface From { name: string; strategy: string; etag: string }

const version = (s: From): Version => ({ fields: { strategy: s.strategy }, etag: s.etag })

function SaveAs({ text, path, saved, name, setName, from, setFrom }: Saved) {
  const one = `${path}/${encodeURIComponent(name)}`
  const edit = useEdit({
    now: from?.name === name ? version(from) : undefined, pinned: true,
    changes: { strategy: text }, log: { queue: queue.value, target: 'strategy ' + name },
    read: async () => version(await call<NamedStrategy>('GET', one)),
    put: async (fields, guard) => {
      const now = await call<NamedStrategy>('PUT', one, fields, guard)
      say(`${now.name} is at version ${exact(now.version)}`)
      return version(now)
    },
    done: (now, isSaved) => {
      const strategy = String(now?.fields['strategy'] ?? text)
      if (now?.etag) setFrom({ name, strategy, etag: now.etag })
      if (!isSaved) refine({ text: strategy })
      saved()
    },
  })
  return (
    <form class="row" onSubmit={(e) => { e.preventDefault(); void edit.save() }}>
      <label class="field">Save as <input value={name} onInput={(e) => { setName(e.currentTarget.value); edit.clear() }} placeholder="nightly" required pattern="[A-Za-z0-9_.\-]+" maxLength={64} /></label>
      <button disabled={edit.busy}>Save</button>
      <Outcome edit={edit} />
    </form>
  )
}

function Named({ s, path, again, edit, compare }: { s: NamedStrategy; path: string; again: () => void; edit: () => void; compare: (() => void) | undefined }) {
  return (
    <div class="branch">
      <div class="row"><b>{s.name}</b><small>version {exact(s.version)}, {moment(s.created_at)}</small></div>
      <code class="mono">{s.strategy}</code>
      <div class="row">
        <button aria-label={`Edit ${s.name}`} onClick={edit}>Edit</button>
        <button aria-label={`Compare to ${s.name}`} disabled={!compare} title="compare what stands in the field Strategy with it" onClick={compare}>Compare</button>
        <Confirm name="Delete" lacks={lacks('operate')} label={`Delete ${s.name}`} danger question={`Delete ${s.name}?`} run={async () => { await call('DELETE', `${path}/${encodeURIComponent(s.name)}`, undefined, { 'If-Match': s.etag }); say(`${s.name} deleted`); again() }}>{s.version === 1 ? 'Its only version is' : `All its ${exact(s.version)} versions are`} deleted. The server refuses the next reserve that names it.</Confirm>
      </div>
    </div>
  )
}

const RefusedBy = ({ top, values }: { top: Refused[]; values: number }) => (
  <>
    {top.slice(0, 4).map((r) => <span key={r.key + shown(r.value ?? '') + r.shard} class="chip" title={`${amount(r.refused.chunks, 'chunk')} held back`}><Clamp text={r.key + (r.value === undefined ? '' : '=' + shown(r.value))} /> {exact(r.in_flight)}{r.max === undefined ? '' : '/' + exact(r.max)}{r.shard ? ` in shard ${r.shard}` : ''}</span>)}
    {values > 4 && <small>and {exact(values - 4)} more</small>}
  </>
)

function Tree({ x }: { x: Explained }) {
  const most = Math.max(1, ...x.tree.map((b) => b.entered.chunks))
  return (
    <>
      <section class="card w12">
        <header><h2>Explain</h2><small>{amount(x.submissions, 'submission')} with ready chunks</small></header>
        {x.withheld.refused.chunks > 0 && <p class="foot">Limits set on values hold back {amount(x.withheld.refused.chunks, 'chunk')} before any block: <RefusedBy top={x.withheld.top} values={x.withheld.refused_values} /></p>}
        <div class="scroll" tabIndex={0} role="region" aria-label="Blocks of the strategy">
          <table class="tree">
            <thead><tr><th>Block</th><th>Passed</th><th class="r">Reached</th><th class="r">Passed</th><th class="r">Held back</th><th>By</th></tr></thead>
            <tbody>{x.tree.map((b) => (
              <tr key={b.pointer}>
                <td><span class="ind" style={{ width: `${b.depth * 20}px` }} /><code class="mono">{b.text}</code></td>
                <td><div class="bar" role="img" aria-label={`${exact(b.passed.chunks)} passed, ${exact(b.refused.chunks)} held back`}><Width of="ready" share={percent(b.passed.chunks, most)} /><Width of="dead" share={percent(b.refused.chunks, most)} /></div></td>
                <td class="r"><Count n={b.entered.chunks} /></td><td class="r"><Count n={b.passed.chunks} /></td><td class="r"><Count n={b.refused.chunks} /></td>
                <td><RefusedBy top={b.top} values={b.refused_values} /></td>
              </tr>
            ))}</tbody>
          </table>
        </div>
      </section>
      <Picks x={{ strategy: x.strategy, seed: x.seed, picks: x.picks.map((p) => p.pick), warnings: x.warnings }} />
    </>
  )
}

/** Blocks that no plugin or formula scored, so that the next branch decided. */
function Picks({ x }: { x: Preview }) {
  return (
    <section class="card w12">
      <header><h2>Chunks that a consumer would get now</h2><small>{exact(x.picks.length)} looked ahead · seed {x.seed}</small></header>
      <Unscored list={x.warnings} />
      {x.picks.length === 0 ? <Empty>Nothing: the strategy admits no ready chunk. Explain shows which block stops them.</Empty> : (
        <PickTable name="Picks" picks={x.picks} />
      )}
    </section>
  )
}

const PickTable = ({ name, picks }: { name: string; picks: Pick[] }) => (
  <Table name={name} columns={[{ name: '#', right: true }, { name: 'Submission' }, { name: 'Chunk', right: true }, { name: 'Meta' }, { name: 'Priority', right: true }, ...(picks[0]?.shard ? [{ name: 'Shard', right: true }] : []), { name: 'Branch' }]}
    lines={picks.map((p, i) => ({ id: String(i), cells: () => [<td class="r">{i + 1}</td>, <td><SubmissionLink id={p.submission} /></td>, <td class="r"><a class="mono" href={link(`submissions/${p.submission}/${p.index}`)}>{p.index}</a></td>, <td><MetaChips meta={p.meta} /></td>, <td class="r">{p.priority}</td>, ...(p.shard ? [<td class="r">{p.shard}</td>] : []), <td class="wrap mono">{p.branch}: {p.path}</td>] }))} />
)

/** The first chunks that only one of two strategies would hand out. */
const Only = ({ name, picks, n }: { name: string; picks: Pick[]; n: number }) => (
  <section class="card w6">
    <header><h2>Only {name} would hand out</h2><small>{picks.length < n ? `the first ${exact(picks.length)} of ${exact(n)}` : exact(n)}</small></header>
    {picks.length === 0 ? <p class="note">Nothing beyond the other one.</p> : <PickTable name={`Only ${name}`} picks={picks} />}
  </section>
)

function Compared({ x }: { x: Comparison }) {
  const keys = [...new Set([...x.a.keys, ...x.b.keys].map((k) => k.key))]
  const cells = (key: string, name: string, s: Spread) => {
    const k = s.keys.find((one) => one.key === key)
    return [
      <td class="mono">{keyName(key)}</td>, <td>{name}</td>, <td class="r">{k ? exact(k.distinct) : '–'}</td>, <td class="r">{k ? `${percent(k.max_share, 1).toFixed(0)} %` : '–'}</td>,
      <td>{k ? <div class="gauge"><div class="bar" aria-hidden="true"><Width of="done" share={k.jain * 100} /></div><span>{k.jain.toFixed(2)}</span></div> : '–'}</td>,
    ]
  }
  return (
    <>
    <section class="card w12">
      <header><h2>Compare</h2><small>{amount(x.overlap, 'chunk', 'chunks', short)} in both · seed {x.seed}</small></header>
      <p class="stack"><code class="mono">A: {x.a.strategy} ({amount(x.a.picks, 'pick')})</code><code class="mono">B: {x.b.strategy} ({amount(x.b.picks, 'pick')})</code></p>
      <Unscored of="A" list={x.a.warnings} />
      <Unscored of="B" list={x.b.warnings} />
      <Table name="Comparison" columns={[{ name: 'Key' }, { name: 'Strategy' }, { name: 'Values', right: true }, { name: 'Largest share', right: true }, { name: 'Evenness' }]}
        lines={keys.flatMap((key) => [{ id: `${key} A`, cells: () => cells(key, 'A', x.a) }, { id: `${key} B`, cells: () => cells(key, 'B', x.b) }])} />
      <p class="foot note">Evenness is Jain’s index over all values that either would hand out: 1 means the same number for each.</p>
    </section>
    <Only name="A" picks={x.only_a} n={x.a.picks - x.overlap} />
    <Only name="B" picks={x.only_b} n={x.b.picks - x.overlap} />
    </>
  )
}
