import { quern, queuePath, shell, valueText } from '../api'
import { metaList } from '../format'
import { write } from '../json'
import { queue } from '../state'
import type { ScheduleDefinition } from '../types'

export const base = () => `${queuePath(queue.value)}/schedules`
export const one = (name: string) => `${base()}/${encodeURIComponent(name)}`

/** A command about schedules of the queue that is shown. */
export const cli = (verb: string, ...more: (string | number)[]) => quern('schedules', verb, ...more, '--queue', queue.value)

const two = (n: number) => String(n).padStart(2, '0')

/** A moment as a field of date and time shows it: in the reader's time zone. */
export const localTime = (at: Date) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`

/** And back. */
export function fromLocal(text: string): string | undefined {
  const at = new Date(text)
  return text === '' || Number.isNaN(at.getTime()) ? undefined : at.toISOString().replace('.000Z', 'Z')
}

/** The command that makes the schedule: with flags, or with the definition as a file where flags cannot express all of it. */
export function setCommand(name: string, d: ScheduleDefinition): string {
  const { template: t } = d
  if ((t.chunks?.inline?.length ?? 0) > 0 || t.attachment || t.operations_per_chunk) return `${shell('echo', write(d))} | ${cli('set', name, '--file', '-')}`
  const words: (string | number)[] = ['--spec', d.spec]
  const flag = (of: string, value: string | number | undefined | false) => { if (value) words.push('--' + of, value) }
  const on = (of: string, set: boolean | undefined) => { if (set) words.push('--' + of) }
  on('seconds', d.seconds)
  flag('tz', d.tz)
  flag('start', d.start)
  flag('end', d.end)
  flag('missed', d.missed)
  if (d.missed === 'all') {
    flag('catchup-limit', d.catchup_limit)
    flag('catchup-window', d.catchup_window_ms && `${d.catchup_window_ms}ms`)
  }
  flag('overlap', d.overlap)
  flag('jitter', d.jitter_ms && `${d.jitter_ms}ms`)
  on('paused', d.enabled === false)
  on('pause-on-failure', d.pause_on_failure)
  on('run-on-create', d.run_on_create)
  flag('count', t.chunks?.count)
  flag('template', t.chunks?.template)
  flag('prefix', t.chunks?.prefix)
  for (const [key, value] of metaList(t.meta)) words.push('--meta', `${key}=${valueText(value)}`)
  flag('priority', t.priority)
  flag('group', t.group)
  flag('max-attempts', t.max_attempts)
  flag('on-exhausted', t.on_exhausted)
  flag('max-failed-chunks', t.max_failed_chunks)
  flag('timeout', t.timeout_ms && `${t.timeout_ms}ms`)
  flag('dead-after', t.dead_after_ms && `${t.dead_after_ms}ms`)
  return cli('set', name, ...words)
}
