import { useState } from 'preact/hooks'
import { Problem, send } from '../api'
import { bytes } from '../format'
import { say } from '../state'
import type { PluginVersion } from '../types'

interface Chosen { module: File; manifest?: File | undefined; config: string }

/** A place for a module: dropped, or chosen. A manifest that is not in the module comes as a file of its own beside it. */
export function Drop({ came, refused }: { came: (v: PluginVersion) => void; refused: (p: Problem) => void }) {
  const [over, setOver] = useState(false)
  const [busy, setBusy] = useState('')
  const [config, setConfig] = useState('')
  const [wrong, setWrong] = useState('')
  const take = async (files: FileList | null) => {
    const all = [...(files ?? [])]
    const module = all.find((f) => f.name.endsWith('.wasm'))
    const manifest = all.find((f) => f.name.endsWith('.json'))
    if (!module) return setWrong(all.length > 0 ? `${all[0]!.name} is not a .wasm file.` : '')
    setWrong('')
    setBusy(`${module.name}, ${bytes(module.size)}`)
    try {
      const v = await upload({ module, manifest, config })
      say(`${v.name} ${v.version} uploaded. It scores after you activate it`)
      came(v)
    } catch (error) {
      if (error instanceof Problem) refused(error)
      else setWrong(String(error))
    } finally { setBusy('') }
  }
  return (
    <div class="stack">
      <label class="drop" data-over={over || undefined} data-busy={busy !== '' || undefined}
        onDragOver={(e) => { e.preventDefault(); setOver(true) }} onDragLeave={() => setOver(false)} onDrop={(e) => { e.preventDefault(); setOver(false); void take(e.dataTransfer?.files ?? null) }}>
        <svg viewBox="0 0 24 24" width="28" height="28" fill="none" stroke="currentColor" stroke-width="1.6" aria-hidden="true"><path d="M12 15V4M8 8l4-4 4 4M4 15v3a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2v-3" /></svg>
        <b>{busy ? `Checking ${busy}…` : 'Drop a module here'}</b>
        <span class="note">a .wasm file, with its manifest.json unless the file contains it</span>
        <input type="file" accept=".wasm,.json" multiple aria-label="Module of a plugin" disabled={busy !== ''} onChange={(e) => { void take(e.currentTarget.files); e.currentTarget.value = '' }} />
      </label>
      <details>
        <summary>Configuration for its dry run</summary>
        <label class="stack">As JSON; only for a plugin that does not start without
          <textarea rows={3} spellcheck={false} value={config} placeholder='{"weight": 2}' onInput={(e) => setConfig(e.currentTarget.value)} /></label>
      </details>
      <p role="status" class="note">{wrong}</p>
    </div>
  )
}

async function upload({ module, manifest, config }: Chosen): Promise<PluginVersion> {
  if (!manifest && config.trim() === '') return send('POST', '/v1/plugins', module, { 'Content-Type': 'application/wasm' })
  const form = new FormData()
  form.append('module', module)
  if (manifest) form.append('manifest', manifest)
  if (config.trim() !== '') form.append('config', config)
  return send('POST', '/v1/plugins', form)
}
