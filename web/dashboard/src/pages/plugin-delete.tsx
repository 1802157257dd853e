import { call, curl, quern } from '../api'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { say } from '../state'

/** Deletes a plugin or a version after a question. While it is in use, the page says why that is refused, and the step to take first. */
export function Delete({ what, path, etag, refused, cli, done, wide }: { what: string; path: string; etag: string; refused: string | undefined; cli: string[]; done: () => void; wide?: boolean }) {
  const remove = async (query: string) => {
    await call('DELETE', path + query, undefined, { 'If-Match': etag })
    say(`${what} deleted`)
    done()
  }
  return (
    <Confirm name="Delete" label={`Delete ${what}`} look={wide ? 'plain' : 'quiet'} danger question={`Delete ${what}?`} refused={refused} run={() => remove('')} force={() => remove('?force=true')}>
      Its module is gone then. Stored strategies that name it keep it from being deleted, unless that is forced: they go on with their next branch then.{' '}
      <CopyAs cli={quern(...cli)} curl={curl('DELETE', path)} />
    </Confirm>
  )
}

const verbs: Record<string, string> = { active: 'deactivate the plugin, or activate another version', canary: 'end the canary', shadow: 'end the shadow' }

/** Why a version may not be deleted, in words; undefined when it may. A version that was active earlier may be deleted: only the rollback
 * to it is lost. */
export function keptBy(version: string, uses: string[]): string | undefined {
  const use = uses.find((u) => verbs[u])
  return use && `${version} is in use (${use}): first ${verbs[use]}.`
}
