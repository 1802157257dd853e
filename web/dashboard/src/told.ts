import { dates, queueName, rateText, shown } from './format'
import { read } from './json'
import type { AuditEntry, Rate } from './types'

/**
 * An entry of the audit log as a sentence without its subject: "paused", "company=12", "until 09:00". `shown` are the fields of the entry's
 * states that the sentence contains.
 */
export interface Told { verb: string; object: string; rest: string; shown: string[] }

type Entry = Pick<AuditEntry, 'at' | 'action' | 'queue' | 'target' | 'before' | 'after' | 'outcome'>
type Fields = Record<string, unknown>

/** The past tense of an action, its infinitive for an act that was refused, and the words behind its object. */
const verbs: Record<string, [past: string, infinitive: string, rest?: (is: Fields) => string]> = {
  'bulk.cancel': ['cancelled', 'cancel'],
  'bulk.start': ['started', 'start', (is) => (is['action'] ? `to ${is['action']} chunks` : '')],
  'consumer.drain': ['told', 'tell', () => 'to finish and leave'],
  'consumer.quiet': ['kept new work from', 'keep new work from'],
  'consumer.release': ['took back the chunks of', 'take back the chunks of'],
  'consumer.resume': ['gave new work to', 'give new work to', () => 'again'],
  'dead_letter.delete': ['deleted', 'delete'],
  'dead_letter.forward': ['forwarded', 'forward', (is) => (is['to'] ? `to queue ${queueName(String(is['to']))}` : '')],
  'dead_letter.redrive': ['redrove', 'redrive'],
  'dead_letter.change': ['changed the content of', 'change the content of'],
  'group.delete': ['deleted', 'delete'],
  'group.move': ['sent', 'send', (is) => (is['moving_to'] === undefined ? '' : `to shard ${is['moving_to']}`)],
  'group.set': ['set up', 'set up'],
  'lifecycle.retry': ['retried the parked work of', 'retry the parked work of'],
  'plugin.activate': ['activated', 'activate'],
  'plugin.canary': ['changed the canary of', 'change the canary of'],
  'plugin.deactivate': ['deactivated', 'deactivate'],
  'plugin.delete': ['deleted', 'delete'],
  'plugin.delete_version': ['deleted a version of', 'delete a version of'],
  'plugin.reset': ['closed the breakers of', 'close the breakers of'],
  'plugin.rollback': ['rolled back', 'roll back'],
  'plugin.settings': ['changed the settings of', 'change the settings of'],
  'plugin.shadow': ['changed the shadow of', 'change the shadow of'],
  'plugin.upload': ['uploaded', 'upload'],
  'queue.change': ['changed the settings of', 'change the settings of'],
  'queue.create': ['created', 'create'],
  'queue.delete': ['deleted', 'delete'],
  'queue.set': ['set up', 'set up'],
  'reservation.release': ['took back', 'take back'],
  'rule.change': ['changed', 'change'],
  'rule.create': ['set', 'set'],
  'rule.lift': ['lifted', 'lift'],
  'schedule.backfill': ['inserted a past tick of', 'insert past ticks of'],
  'schedule.change': ['changed', 'change'],
  'schedule.create': ['created', 'create'],
  'schedule.delete': ['deleted', 'delete'],
  'schedule.pause': ['paused', 'pause'],
  'schedule.resume': ['resumed', 'resume'],
  'schedule.set': ['set', 'set'],
  'schedule.trigger': ['ran', 'run', () => 'now'],
  'server.backup': ['backed up', 'back up'],
  'strategy.change': ['changed', 'change'],
  'strategy.create': ['created', 'create'],
  'strategy.delete': ['deleted', 'delete'],
  'strategy.set': ['set', 'set'],
  'chunk.cancel': ['cancelled', 'cancel'],
  'submission.cancel': ['cancelled', 'cancel'],
  'submission.delete': ['deleted', 'delete'],
  'submission.change': ['gave', 'change the priority of', (is) => (is['priority'] === undefined ? '' : `priority ${is['priority']}`)],
  'token.create': ['created', 'create'],
  'token.revoke': ['revoked', 'revoke'],
  'token.rotate': ['rotated', 'rotate'],
  'key.delete': ['removed the default of', 'remove the default of'],
  'key.set': ['set the default of', 'set the default of', (is) => limitsOf(is)],
  'value.delete': ['removed the settings of', 'remove the settings of'],
  'value.set': ['set', 'set', (is) => limitsOf(is)],
}

/** Past tenses of the actions of a rule. */
const ruled: Record<string, string> = { pause: 'paused', block: 'blocked' }

const clock = dates({ hour: '2-digit', minute: '2-digit' })
const dayAndClock = dates({ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' })
const day = dates({ dateStyle: 'short' })

/** When something ends: the time alone, if that is on the same day. */
const untilOf = (at: string, until: unknown) => (typeof until === 'string' ? `until ${(day(until) === day(at) ? clock : dayAndClock)(until)}` : '')

function limitsOf(is: Fields): string {
  const parts = [...(is['limit'] === undefined ? [] : [`limit ${is['limit']}`]), ...(is['weight'] === undefined ? [] : [`weight ${is['weight']}`]), ...(is['rate'] === undefined ? [] : [`rate ${rateText(is['rate'] as Rate)}`])]
  return parts.length > 0 ? 'to ' + parts.join(' and ') : ''
}

const fields = (v: unknown): Fields => (typeof v === 'object' && v !== null ? (v as Fields) : {})

/** The name of an object without the quotes that the log has around a text, where it reads as a text without them: company=acme, but company="7". */
export function named(object: string): string {
  const found = /^([^="]+=)(".*")$/.exec(object)
  try {
    return found ? found[1] + shown(read(found[2]!) as string) : object
  } catch {
    return object // not a text of JSON
  }
}

/** The object of an entry whose log names none: the queue, or the server. */
function objectOf({ action, queue, target }: Entry, of: Fields): string {
  if (action.startsWith('token.') && typeof of['name'] === 'string') return `token ${of['name']}`
  if (action.startsWith('group.')) return `group ${target}`
  if (target) return named(target).replace(/^submission (\S+) chunk (\S+)$/, 'chunk $2 of submission $1')
  if (action.startsWith('queue.') && queue) return queue.replace(/^(.+)~(\d+)$/, 'shard $2 of $1').replace(/^(?!shard \d+ of )/, 'queue ')
  return { 'rule.create': 'a rule', 'rule.lift': 'a rule', 'token.create': 'a token', 'plugin.upload': 'a plugin', 'bulk.start': 'a bulk operation', 'lifecycle.retry': 'the life-cycle worker', 'server.backup': 'the server' }[action] ?? ''
}

/** The fields that the sentences of verbs have. A changed limit stays among the details, as those have the old one too. */
function shownBy({ action, before, queue }: Entry): string[] {
  if (action.startsWith('token.')) return ['name']
  if ((action === 'value.set' || action === 'key.set') && before === undefined) return ['limit', 'weight', 'rate']
  if (action === 'queue.create' && queue?.includes('~')) return ['shards'] // those of the queue
  return { 'bulk.start': ['action'], 'group.move': ['moving_to'], 'dead_letter.forward': ['to'], 'schedule.pause': ['enabled'], 'schedule.resume': ['enabled'] }[action] ?? []
}

/** An entry as words. An act that was refused has the infinitive, as it was only tried. */
export function toldOf(e: Entry): Told {
  const refused = e.outcome !== 'ok'
  const [was, is] = [fields(e.before), refused ? {} : fields(e.after)]
  if (e.action === 'rule.create' && ruled[String(is['action'])]) return { verb: ruled[String(is['action'])]!, object: named(String(is['match'])), rest: untilOf(e.at, is['until']), shown: ['action', 'match', 'conditions', 'until'] }
  if (e.action === 'rule.lift' && typeof was['action'] === 'string') return { verb: `lifted the ${was['action']} of`, object: named(String(was['match'])), rest: '', shown: ['action', 'match', 'conditions'] }
  if (e.action === 'group.move' && !refused && is['moving_to'] === undefined) return { verb: 'kept', object: objectOf(e, {}), rest: 'in its shard', shown: shownBy(e) }
  const [past, infinitive, rest] = verbs[e.action] ?? [e.action, e.action]
  return { verb: refused ? 'tried to ' + infinitive : past, object: objectOf(e, { ...was, ...is }), rest: refused ? '' : rest?.(is) ?? '', shown: shownBy(e) }
}

/** The name of the actor. An act without an address is the server's own. */
export const actorOf = ({ actor, from }: AuditEntry) => actor || (from ? 'someone' : 'the server')

/** The sentence of an entry as one text, with its subject. */
export function sentenceOf(e: AuditEntry): string {
  const { verb, object, rest } = toldOf(e)
  return [actorOf(e), verb, object, rest].filter((part) => part !== '').join(' ')
}
