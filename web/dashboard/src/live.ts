import { useEffect, useRef, useState } from 'preact/hooks'
import { signal, useSignalEffect } from '@preact/signals'
import { Problem, call } from './api'
import { kept } from './kept'
import { beat, frozen, inTurn } from './stream'

export interface Live<T> {
  data: T | undefined
  problem: Problem | undefined
  /** Reads the path again because this page changed it: all actions wait for the answer. */
  again: () => void
  /** Reads the path again because another client changed it. No action waits: a button that is disabled while it is pressed loses the
   * click. */
  refresh: () => void
}

/** How many reads that follow a change have not come yet. */
const coming = signal(0)

/**
 * Reads a path, and again every this many frames of the stream (0: never). There is never more than one request under way, and none
 * while the stream stands still. The earlier answer stays until the new one is there. With another path it stays only if both have the same
 * `of`, such as the last hour, whose path changes with time.
 */
export function useLive<T>(path: string, every = 2, of = path): Live<T> {
  const [state, set] = useState<{ of: string; data: T | undefined; problem: Problem | undefined }>({ of: '', data: undefined, problem: undefined })
  const busy = useRef<{ stop: AbortController; awaited: boolean } | null>(null)
  const wanted = useRef({ path, of })
  const seen = useRef(0)
  const shown = useRef('')
  const start = (awaited = false) => {
    if (busy.current) return
    const mine = { stop: new AbortController(), awaited }
    const { signal } = mine.stop
    busy.current = mine
    if (awaited) coming.value++
    const { path, of } = wanted.current
    void call<T>('GET', path, undefined, {}, signal)
      .then(async (data) => {
        if (!awaited && shown.current === of) {
          await inTurn()
          if (frozen.peek()) return
        }
        if (!signal.aborted) shown.current = of
        if (!signal.aborted) set((old) => kept(old, { of, data, problem: undefined }))
      })
      .catch((problem) => { if (!signal.aborted) set((old) => ({ of, data: old.of === of ? old.data : undefined, problem })) })
      .finally(() => {
        if (busy.current === mine) busy.current = null
        if (awaited) coming.value--
      })
  }
  const stop = () => { busy.current?.stop.abort(); busy.current = null }
  useEffect(() => {
    stop()
    wanted.current = { path, of }
    if (path) start()
    return stop
  }, [path])
  useSignalEffect(() => {
    const now = beat.value
    if (every === 0 || frozen.value || !wanted.current.path || now - seen.current < every) return
    seen.current = now
    start()
  })
  const restart = (awaits: boolean) => {
    const awaited = awaits || busy.current?.awaited === true
    stop()
    start(awaited)
  }
  const fresh = state.of === of
  return { data: fresh ? state.data : undefined, problem: fresh ? state.problem : undefined, again: () => restart(true), refresh: () => restart(false) }
}

/**
 * Runs one action at a time and keeps the problem it ended with. All actions are busy until the page has read the changed data again: the
 * next action needs the new ETag, and its button may be elsewhere by then.
 */
export function useAction(): { busy: boolean; problem: Problem | undefined; run: (fn: () => Promise<void>) => Promise<void>; clear: () => void } {
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem>()
  const run = async (fn: () => Promise<void>) => {
    setBusy(true)
    setProblem(undefined)
    try { await fn() } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem('The page made a mistake', String(error), 0, 'page', ''))
    } finally { setBusy(false) }
  }
  return { busy: busy || coming.value > 0, problem, run, clear: () => setProblem(undefined) }
}
