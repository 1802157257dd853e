// Back shows a page where it was left. The browser cannot do that: it scrolls before the lists are read, when the page is still short.

/** How far the page of each step of the history was scrolled. */
const places = new Map<string, number>()
let step = named()
/** Ends scrolling back, while it goes on. */
let arrive: (() => void) | undefined

/** The step that is shown. A step that was shown before still has its name. */
function named(): string {
  const known = (history.state as { step?: string } | null)?.step
  if (known) return known
  const name = `${performance.timeOrigin + performance.now()} ${places.size}`
  history.replaceState({ step: name }, '')
  return name
}

/** A page grows while its parts are read. It is scrolled with each of them, until the reader acts or it has been there for a moment. */
function scrollBack(to: number) {
  const acts = new AbortController()
  let there = false
  const watch = new ResizeObserver(() => {
    scrollTo(0, to)
    if (there || Math.abs(scrollY - to) > 1) return
    there = true
    clearTimeout(timer)
    timer = setTimeout(end, 1000)
  })
  const end = () => {
    clearTimeout(timer)
    watch.disconnect()
    acts.abort()
    arrive = undefined
    places.set(step, scrollY)
  }
  let timer = setTimeout(end, 30_000) // it is shorter now
  arrive = end
  watch.observe(document.body)
  for (const act of ['wheel', 'touchstart', 'pointerdown', 'keydown']) addEventListener(act, end, { signal: acts.signal, passive: true })
}

export function keepPlaces() {
  addEventListener('pageshow', () => { history.scrollRestoration = 'manual' })
  addEventListener('pagehide', () => { history.scrollRestoration = 'auto' }) // a page that is loaded again has no places
  addEventListener('scroll', () => { if (!arrive) places.set(step, scrollY) }, { passive: true })
  addEventListener('hashchange', () => {
    arrive?.()
    step = named()
    const to = places.get(step) ?? 0
    scrollTo(0, to)
    if (to > 0) scrollBack(to)
  })
}
