// Contents and outputs in object storage: S3 and what speaks like it, files, or a Bucket of your own. For Node and Deno.
import type { Bucket } from './bucket.js'
import { FileBucket } from './files.js'
import { S3Bucket } from './s3.js'

export { type Bucket, type Content, type Listed, MissingError } from './bucket.js'
export { FileBucket } from './files.js'
export { S3Bucket, S3Error, type S3Options } from './s3.js'
export type { Credentials } from './sign.js'
export { type ObjectHandler, Store } from './store.js'

/** Options of gocloud.dev's URLs of files, which are always so here. */
const ofFiles = ['no_tmp_dir', 'create_dir', 'metadata']
const ofS3 = ['region', 'prefix', 'endpoint', 'use_path_style', 's3ForcePathStyle']

/**
 * The bucket at file:///srv/objects or s3://name?region=eu-central-1, with the URLs of gocloud.dev, so that one does for all languages. S3 takes
 * region, prefix, endpoint (the URL of a server that speaks like it) and use_path_style=true.
 */
export function openBucket(url: string): Bucket {
  const { protocol, host, pathname, searchParams } = new URL(url)
  const known = (names: string[]) => {
    const unknown = [...searchParams.keys()].find((name) => !names.includes(name))
    if (unknown) throw new TypeError(`quern: ${JSON.stringify(url)} has the option ${unknown}, which is none of ${names.join(', ')}`)
  }
  if (protocol === 'file:' && host === '' && pathname !== '') {
    known(ofFiles)
    return new FileBucket(decodeURIComponent(pathname))
  }
  if (protocol === 's3:' && host !== '' && pathname.replaceAll('/', '') === '') {
    known(ofS3)
    const option = (name: string) => searchParams.get(name) ?? ''
    return new S3Bucket(host, { region: option('region'), endpoint: option('endpoint'), prefix: option('prefix'), pathStyle: [option('use_path_style'), option('s3ForcePathStyle')].includes('true') })
  }
  throw new TypeError(`quern: ${JSON.stringify(url)} is neither file:///folder nor s3://bucket?region=...; for others give Store a Bucket of your own`)
}
