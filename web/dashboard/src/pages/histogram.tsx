import { amount, exact } from '../format'
import { Mark } from '../parts'

/** How many candidates have scores in this range, and how many of these have chunks that are taken. */
export interface ScoreBin { from: number; to: number; count: number; taken: number }

/** Writes scores with as many digits as tell the ends of a range apart. */
function scale(from: number, to: number, parts: number): (n: number) => string {
  const [step, largest] = [(to - from) / parts, Math.max(Math.abs(from), Math.abs(to))]
  const decimals = step > 0 ? Math.max(0, Math.ceil(1 - Math.log10(step))) : 2
  if (largest < 1e15 && decimals <= 6) {
    const format = new Intl.NumberFormat('en-US', { maximumFractionDigits: decimals })
    return (n) => format.format(n)
  }
  const digits = step > 0 ? Math.min(15, Math.max(1, Math.ceil(Math.log10(largest / step)))) : 3
  return (n) => n.toExponential(digits)
}

/** The spread of scores: a column for each range, with the taken candidates as its upper part. The same numbers stand below as a table. */
export function Histogram({ bins, taken }: { bins: ScoreBin[]; taken: string }) {
  const most = Math.max(1, ...bins.map((b) => b.count))
  const first = bins[0]
  const last = bins.at(-1)
  if (!first || !last) return null
  const text = scale(first.from, last.to, bins.length)
  return (
    <figure class="hist">
      <div class="bars" role="img" aria-label={`Scores from ${text(first.from)} to ${text(last.to)}; the fullest range has ${amount(most, 'candidate')}. The table below has the numbers.`}>
        {bins.map((b, i) => (
          <div key={i} class="col" title={`${text(b.from)} to ${text(b.to)}: ${amount(b.count, 'candidate')}, ${exact(b.taken)} taken`}>
            <i class="rest" style={{ height: `${(100 * Math.max(0, b.count - b.taken)) / most}%` }} />
            {b.taken > 0 && <i class="took" style={{ height: `max(3px, ${(100 * Math.min(b.count, b.taken)) / most}%)` }} />}
          </div>
        ))}
      </div>
      <figcaption class="legend"><span class="mono">{text(first.from)}</span><span class="mid"><span><Mark of="ready" />candidates</span><span><Mark of="took" />{taken}</span></span><span class="mono">{text(last.to)}</span></figcaption>
      <details><summary>Scores as a table</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label="Scores as a table">
          <table><thead><tr><th>From</th><th>To</th><th class="r">Candidates</th><th class="r">Taken</th></tr></thead>
            <tbody>{bins.map((b, i) => <tr key={i}><td class="mono">{text(b.from)}</td><td class="mono">{text(b.to)}</td><td class="r">{exact(b.count)}</td><td class="r">{exact(b.taken)}</td></tr>)}</tbody></table>
        </div>
      </details>
    </figure>
  )
}
