import declared from './settings.json'
import { isBackoff, ms, pause } from './backoff'
import { duration, exact } from './format'

/** The settings of a queue and of a plugin as the server declares them, in the order in which they are shown. `make golden` writes
 * settings.json. */
interface Setting { name: string; sentence: string; range?: string; zero?: string; choices?: string[] }
export const pluginSettings: Setting[] = declared.plugin
const ofQueue: Setting[] = declared.queue
/** The settings of a queue that names none, as the audit log has them. */
export const defaults: Record<string, unknown> = declared.defaults
const settings = new Map([...pluginSettings, ...ofQueue].map((s) => [s.name, s]))
export const setting = (name: string): Setting | undefined => settings.get(name)

/** A setting as people read it. */
export function said(name: string, value: unknown): string {
  const zero = setting(name)?.zero
  if (value === 0 && zero) return zero
  if (typeof value === 'number' && name.endsWith('_ms')) return ms(value)
  if (typeof value === 'number' && name.endsWith('_seconds')) return duration(value)
  if (typeof value === 'number' && name === 'suspect_share') return `${(100 * value).toFixed(0)} %`
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (isBackoff(value)) return pause(value)
  return value === undefined || value === '' ? 'none' : typeof value === 'number' ? exact(value) : String(value)
}

/** All settings of a queue by name, those that are not set too, and those that this page does not know last. */
export function settingsOf(of: Record<string, unknown>): [string, unknown][] {
  const names = ofQueue.map((s) => s.name)
  return [...names, ...Object.keys(of).filter((name) => !names.includes(name))].map((name) => [name, of[name]])
}
