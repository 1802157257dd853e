// Work to insert.
import { type Data, encode } from './bytes.js'
import { checkMeta } from './connection.js'
import type { NewSubmission } from './generated/types.js'

/** A submission to insert, with chunks in exactly one of three forms. */
export type Insert = Omit<NewSubmission, 'chunks' | 'attachment'> & {
  chunks: { count: number; template: string } | { count: number; prefix: string } | { inline: readonly Data[] }
  attachment?: Data
}

/** A submission of insertMany. */
export type InsertOfMany = Insert & {
  /** Like the key of InsertOptions. */
  idempotency_key?: string
}

/** A submission as it is sent. */
export function insertBody(work: InsertOfMany): object {
  const { chunks } = work
  return { ...insertHead(work), chunks: 'inline' in chunks ? { inline: chunks.inline.map(encode) } : chunks }
}

/** The submission without its chunks. */
export function insertHead({ attachment, meta, chunks: _, ...rest }: Omit<InsertOfMany, 'chunks'> & { chunks?: unknown }): object {
  return { ...rest, ...(meta ? { meta: checkMeta('meta', meta) } : {}), ...(attachment === undefined ? {} : { attachment: encode(attachment) }) }
}
