import { useState } from 'preact/hooks'
import { call, curl, quern, valueOf, valueText } from '../api'
import { Confirm } from '../confirm'
import { CopyAs, CopySecret } from '../copy'
import { exact, metaList, moment, queueName } from '../format'
import { List } from '../list'
import { useAction, useLive, type Live } from '../live'
import { Empty, Failed, MetaChips } from '../parts'
import { enter, lock, scopes, who, type Scope } from '../session'
import { say } from '../state'
import { stats } from '../stream'
import { Clamp } from '../text'
import type { Meta, Page, Token, Whoami } from '../types'

const base = '/v1/tokens'
const one = (id: string) => `${base}/${encodeURIComponent(id)}`

/** The rights of each scope, in words. */
const about: Record<Scope, string> = {
  produce: 'insert submissions and read their own', consume: 'reserve, complete and fail chunks, pause', read: 'look at everything', metrics: 'read /metrics',
  operate: 'pause, cancel, redrive, schedules, limits, strategies', plugins: 'upload and activate plugins', admin: 'everything, with blocks, queues and tokens',
}

/** Access tokens with their scopes. The text of a token is shown once. */
export function Tokens() {
  const list = useLive<Page<Token>>(base, 3)
  const [made, setMade] = useState<Token>()
  const items = list.data?.items
  return (
    <>
      <div class="head"><h1>Tokens</h1><span>who may do what on this server</span><div class="act"><CopyAs cli={quern('token', 'list')} curl={curl('GET', base)} /></div></div>
      {made?.token && <Secret of={made} close={() => setMade(undefined)} />}
      <section class="card w4"><header><h2>New token</h2></header><NewToken first={who.value?.token_required === false} made={setMade} done={list.again} /></section>
      <section class="card w8">
        <header><h2>Tokens</h2><small>{items ? exact(items.length) : ''}</small></header>
        {list.problem && <Failed problem={list.problem} again={list.again} />}
        {!items && !list.problem && <p class="note">Reading…</p>}
        {items?.length === 0 && <Empty command={quern('token', 'new', 'ana', '--scopes', 'admin')}>There is no token: everyone who reaches the server may do everything. The first token closes the server for good: every request then needs one.</Empty>}
        {items && items.length > 0 && <TokenList list={list} items={items} made={setMade} />}
      </section>
    </>
  )
}

/** The text of a token that was made a moment ago. */
function Secret({ of, close }: { of: Token; close: () => void }) {
  return (
    <section class="card w12" aria-label="The new secret">
      <header><h2>The token of <bdi>{of.name}</bdi></h2><button onClick={close}>I saved it: hide it</button></header>
      <div class="stack">
        <pre class="wrap" tabIndex={0}>{of.token}</pre>
        <p class="row"><CopySecret text={of.token!} name="Copy token" />You see it only this once: the server keeps a hash of it.{of.previous_secret_until &&  ` The previous secret is valid until ${moment(of.previous_secret_until)}.`}</p>
      </div>
    </section>
  )
}

function TokenList({ list, items, made }: { list: Live<Page<Token>>; items: Token[]; made: (t: Token) => void }) {
  return (
    <List name="Access tokens" items={items} id={(t) => t.id} scope="" marked={who.value?.id}
      columns={[{ name: 'Name' }, { name: 'May' }, { name: 'Bound to' }, { name: 'Used last' }, { name: 'Ends' }, { name: 'Actions', hidden: true }]}
      cells={(t) => [
        <td><b><Clamp text={t.name} /></b><p class="note"><span class="mono">{t.id}</span>{t.id === who.value?.id ? ', yours' : ''}, made {moment(t.created_at)}</p></td>,
        <td class="wrap">{t.scopes.map((s) => <span key={s} class="chip">{s}</span>)}</td>,
        <td class="wrap">{(t.queues ?? []).map((q) => <span key={q} class="chip">queue {queueName(q)}</span>)}<MetaChips meta={t.meta} />{!t.queues && !t.meta && <span class="note">nothing</span>}</td>,
        <td class="note">{t.last_used_at ? moment(t.last_used_at) : 'never'}</td>,
        <td class="note">{t.expires_at ? moment(t.expires_at) : 'when it is revoked'}</td>,
        <td class="r"><div class="row end"><Rotate t={t} made={(n) => { made(n); list.again() }} /><Revoke t={t} done={list.again} /></div></td>,
      ]} />
  )
}

/** For how long the secret before a rotation stays good. */
const overlaps: [string, number][] = [['not at all', 0], ['1 hour', 3600], ['1 day', 86400], ['1 week', 604_800]]

function Rotate({ t, made }: { t: Token; made: (t: Token) => void }) {
  const [overlap, setOverlap] = useState(3600)
  const body = { overlap_seconds: overlap }
  return (
    <Confirm name="Rotate" label={`Rotate ${t.name}`} question={`Rotate the secret of ${t.name}?`} run={async () => { made(await call<Token>('POST', `${one(t.id)}/rotate`, body)); say(`${t.name} has a new secret`) }}>
      The new text is shown once. The server refuses the old one when its time is over.{' '}
      <label class="field">The old secret stays valid <select value={String(overlap)} onChange={(e) => setOverlap(Number(e.currentTarget.value))}>{overlaps.map(([name, n]) => <option key={n} value={String(n)}>{name}</option>)}</select></label>
      <CopyAs cli={quern('token', 'rotate', t.id, '--overlap', `${overlap}s`)} curl={curl('POST', `${one(t.id)}/rotate`, body)} />
    </Confirm>
  )
}

function Revoke({ t, done }: { t: Token; done: () => void }) {
  const mine = t.id === who.value?.id
  return (
    <Confirm name="Revoke" label={`Revoke ${t.name}`} danger question={`Revoke ${t.name}?`} run={async () => {
      await call('DELETE', one(t.id))
      say(`${t.name} revoked`)
      if (mine) lock()
      else done()
    }}>
      Requests with it are refused at once, and its sessions and streams end; it was used last {t.last_used_at ? moment(t.last_used_at) : 'never'}.{mine && <b> You are logged in with it, and will be logged out.</b>}{' '}
      <CopyAs cli={quern('token', 'revoke', t.id)} curl={curl('DELETE', one(t.id))} />
    </Confirm>
  )
}

/** Days after which a token ends by itself, in words. */
const lengths: [string, number][] = [['when it is revoked', 0], ['in 1 day', 1], ['in 30 days', 30], ['in 90 days', 90], ['in 1 year', 365]]

function NewToken({ first, made, done }: { first: boolean; made: (t: Token) => void; done: () => void }) {
  const [name, setName] = useState('')
  const [chosen, choose] = useState<Scope[]>(first ? ['admin'] : ['read'])
  const [queues, setQueues] = useState('')
  const [meta, setMeta] = useState('')
  const [days, setDays] = useState(first ? 0 : 90)
  const action = useAction()
  const cut = meta.indexOf('=')
  const bound: Meta | undefined = cut > 0 ? { [meta.slice(0, cut).trim()]: valueOf(meta.slice(cut + 1)) } : undefined
  const named = queues.split(/[\s,]+/).filter(Boolean)
  const now = stats.value ? Date.parse(stats.value.at) : Date.now() // the server's clock, as that of the reader may be wrong
  const body = { name: name.trim(), scopes: chosen, ...(named.length > 0 ? { queues: named } : {}), ...(bound ? { meta: bound } : {}), ...(days > 0 ? { expires_at: new Date(now + days * 86_400_000).toISOString() } : {}) }
  const make = (e: SubmitEvent) => {
    e.preventDefault()
    void action.run(async () => {
      const create = async () => { // its text is shown before anything else can fail, because the server never shows it again
        const t = await call<Token>('POST', base, body)
        setName('')
        made(t)
        return t
      }
      if (!first) await create()
      else await enter(async () => call<Whoami>('POST', '/v1/session', { token: (await create()).token })) // from now on this page needs one too
      done()
    })
  }
  const flags = [...(named.length > 0 ? ['--queues', named.join(',')] : []), ...metaList(bound).flatMap(([k, v]) => ['--meta', `${k}=${valueText(v)}`]), ...(days > 0 ? ['--expires', `${days}d`] : [])]
  return (
    <form class="stack" aria-label="New token" onSubmit={make}>
      {first && <p class="note">The first token closes the server for good: every request then needs one. It has the scope admin, and this page logs in with it.</p>}
      <label class="stack tight">Name<input required maxLength={128} value={name} placeholder="ci" onInput={(e) => setName(e.currentTarget.value)} /></label>
      <fieldset class="stack tight"><legend>It may</legend>{scopes.map((s) => (
        <label key={s} class="check"><input type="checkbox" checked={chosen.includes(s)} disabled={first && s === 'admin'} onChange={(e) => choose(e.currentTarget.checked ? [...chosen, s] : chosen.filter((o) => o !== s))} /> <b>{s}</b> <span class="note">{about[s]}</span></label>
      ))}</fieldset>
      <label class="stack tight">Only these queues<input class="mono" value={queues} placeholder="all" onInput={(e) => setQueues(e.currentTarget.value)} /></label>
      <label class="stack tight">Only submissions with KEY=VALUE<input class="mono" value={meta} placeholder="all" pattern="[^=]+=.*" onInput={(e) => setMeta(e.currentTarget.value)} /></label>
      <label class="stack tight">It ends<select value={String(days)} onChange={(e) => setDays(Number(e.currentTarget.value))}>{lengths.map(([text, n]) => <option key={n} value={String(n)}>{text}</option>)}</select></label>
      <div class="row"><button class="main" disabled={action.busy || chosen.length === 0}>Make token</button><CopyAs cli={quern('token', 'new', name || 'NAME', '--scopes', chosen.join(','), ...flags)} curl={curl('POST', base, body)} /></div>
      {action.problem && <Failed problem={action.problem} />}
    </form>
  )
}
