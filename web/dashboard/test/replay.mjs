// A way to the server on which frames come as fast as they are asked for: a tab sees the frames of hours in seconds.
import { createServer, request } from 'node:http'

/** Reads the stream until it has had the beginning and one frame of each topic. */
async function frames(url) {
  const response = await fetch(url + '/v1/events?topics=stats,keys&queue=default')
  const found = new Map()
  let text = ''
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const event = text.slice(0, end)
      text = text.slice(end + 2)
      const name = /^event: (\w+)/m.exec(event)?.[1]
      const data = /^data: (.*)$/m.exec(event)?.[1]
      if (name && data) found.set(name, data)
    }
    if (['series', 'stats', 'keys'].every((name) => found.has(name))) break
  }
  return found
}

/** Serves the server's answers, except the stream: a subscriber gets the server's present frame, and then `send(n)` sends n frames, each a
 * second later than the one before by its own time. */
export async function replay(url) {
  const real = await frames(url)
  const open = new Set()
  let at = Date.now()
  const listener = createServer((from, to) => {
    if (from.url.startsWith('/v1/events')) {
      to.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
      to.write(`event: series\ndata: ${real.get('series')}\n\n` + frame())
      open.add(to)
      to.on('close', () => open.delete(to))
      return
    }
    const on = request(url + from.url, { method: from.method, headers: from.headers }, (answer) => { to.writeHead(answer.statusCode, answer.headers); answer.pipe(to) })
    on.on('error', () => to.destroy())
    from.pipe(on)
  })
  const again = (name) => JSON.stringify({ ...JSON.parse(real.get(name)), at: new Date(at).toISOString() })
  const frame = () => `event: stats\ndata: ${again('stats')}\n\nevent: keys\ndata: ${again('keys')}\n\n`
  await new Promise((ready) => listener.listen(0, '127.0.0.1', ready))
  return {
    url: `http://127.0.0.1:${listener.address().port}`,
    send(n) {
      for (let i = 0; i < n; i++) {
        at += 1000
        for (const to of open) to.write(frame())
      }
      return new Date(at).toISOString()
    },
    stop: () => new Promise((closed) => { listener.close(closed); listener.closeAllConnections() }),
  }
}

/** How much of the page's heap is in use once everything that can go is gone. */
export async function heap(page) {
  const session = await page.context().newCDPSession(page)
  for (let i = 0; i < 3; i++) await session.send('HeapProfiler.collectGarbage')
  const { usedSize } = await session.send('Runtime.getHeapUsage')
  await session.detach()
  return usedSize
}
