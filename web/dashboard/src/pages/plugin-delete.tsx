import { useState } from 'preact/hooks'
import { call, curl, shell } from '../api'
import { useAction } from '../live'
import { CopyAs, Failed } from '../parts'
import { say } from '../state'

/** Deletes a plugin or a version after a question. While it is in use it says why that is refused, and what to do first. */
export function Delete({ what, path, etag, refused, cli, done, wide }: { what: string; path: string; etag: string; refused: string | undefined; cli: string[]; done: () => void; wide?: boolean }) {
  const [asked, setAsked] = useState(false)
  const action = useAction()
  const run = () => action.run(async () => {
    await call('DELETE', path, undefined, { 'If-Match': etag })
    setAsked(false)
    say(`${what} is deleted`)
    done()
  })
  if (!asked) return <button class={wide ? undefined : 'quiet'} aria-label={`Delete ${what}`} onClick={() => setAsked(true)}>Delete…</button>
  return (
    <div class={wide ? 'ask stack w12' : 'ask stack'} role="group" aria-label={`Delete ${what}`} onKeyDown={(e) => { if (e.key === 'Escape') setAsked(false) }}>
      <span class="said">{refused ?? `Delete ${what}? Its module is gone then; strategies that ask for it go on without it.`}</span>
      <div class="row">
        {refused === undefined && <button class="danger" disabled={action.busy} ref={(b) => b?.focus()} onClick={() => void run()}>Delete</button>}
        <button ref={(b) => { if (refused !== undefined) b?.focus() }} onClick={() => setAsked(false)}>{refused === undefined ? 'Keep' : 'Understood'}</button>
        {refused === undefined && <CopyAs cli={shell(...cli)} curl={curl('DELETE', path)} />}
      </div>
      {action.problem && <Failed problem={action.problem} />}
    </div>
  )
}

const verbs: Record<string, string> = { active: 'deactivate the plugin, or activate another version', canary: 'end the canary', shadow: 'end the shadow' }

/** Why a version may not be deleted, in words; undefined when it may. What was active before may go: only the way back is lost. */
export function keptBy(version: string, uses: string[]): string | undefined {
  const use = uses.find((u) => verbs[u])
  return use && `${version} is in use (${use}): first ${verbs[use]}.`
}
