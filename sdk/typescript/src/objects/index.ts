// Contents and outputs in object storage: in files, or in a Bucket, an object with four methods. For Node and Deno.
export type { Content } from './content.js'
export { FileBucket } from './files.js'
export { type Bucket, type Listed, type ObjectHandler, Store } from './store.js'
