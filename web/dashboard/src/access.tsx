import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { call } from './api'
import { moment } from './format'
import { useAction } from './live'
import { Empty, Failed } from './parts'
import { enter, lock, locked, may, who, type Scope } from './session'
import { link } from './state'
import { starts } from './stream'
import { Clamp } from './text'
import type { Whoami } from './types'

/** Shows its children only to a login with one of the scopes. */
export const Gate = ({ scope, children }: { scope: Scope | Scope[]; children: ComponentChildren }) => (may(...[scope].flat()) ? <>{children}</> : null)

/** Asks the server who this is, at the start and whenever the stream starts over: scopes may have changed meanwhile. */
export function useWho() {
  useEffect(() => {
    if (locked.value) return
    const ended = new AbortController()
    let timer = 0
    const ask = () => void call<Whoami>('GET', '/v1/whoami', undefined, {}, ended.signal).then((me) => { who.value = me }, () => {
      if (!ended.signal.aborted && !locked.value) timer = setTimeout(ask, 2000) as unknown as number
    })
    ask()
    return () => { ended.abort(); clearTimeout(timer) }
  }, [starts.value, locked.value])
}

/** The name of the login, and the logout. Without tokens there is no name to show. */
export function Me() {
  const action = useAction()
  const me = who.value
  if (!me?.name) return null
  const until = me.session ? `The session ends at ${moment(me.session.ends_at)}, or after ${Math.round(me.session.idle_seconds / 60)} minutes without an open page.` : ''
  return (
    <>
      <span class="me" title={`${me.scopes.join(', ')}. ${until}`}><Clamp text={me.name} most={18} /> <span class="note">{me.scopes.includes('admin') ? 'admin' : me.scopes.join(', ')}</span></span>
      <button disabled={action.busy} onClick={() => void action.run(async () => { await call('DELETE', '/v1/session'); lock() })}>Log out</button>
    </>
  )
}

/** Asks for a token. The server answers with a cookie that no script can read. */
export function Login() {
  const action = useAction()
  useEffect(() => { document.title = 'Log in · Quern' }, [])
  const login = (e: SubmitEvent) => {
    e.preventDefault()
    const token = new FormData(e.currentTarget as HTMLFormElement).get('token')?.toString().trim() ?? ''
    void action.run(() => enter(() => call<Whoami>('POST', '/v1/session', { token })))
  }
  return (
    <main class="login">
      <form class="card stack" onSubmit={login}>
        <h1>Log in to Quern</h1>
        <label class="stack tight">Access token<input class="mono" name="token" type="password" required autocomplete="current-password" spellcheck={false} placeholder="qn_…" ref={(i) => { if (i && !i.dataset.seen) { i.dataset.seen = '1'; i.focus() } }} /></label>
        <div class="row"><button class="main" disabled={action.busy}>Log in</button></div>
        {action.problem && <Failed problem={action.problem} />}
        <small>The first token is in the file <code>admin-token</code> in the server’s data directory. Use it to make others, here or with <code>quern token new</code>. This page sends the token once, and the browser does not keep it.</small>
      </form>
    </main>
  )
}

/** In the place of the pages, for a token that may not look at anything. */
export function NotToLook() {
  const me = who.value!
  return <section class="card w12"><Empty>The token “{me.name}” may not read queues. It needs the scope read, and has {me.scopes.join(', ')}. {may('plugins') && <a href={link('plugins')}>Plugins</a>}</Empty></section>
}
