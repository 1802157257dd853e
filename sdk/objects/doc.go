// Package objects stores the contents and outputs of chunks in object storage: S3 and compatible storage, Google Cloud Storage,
// Azure Blob Storage, or files. The queue has only their keys.
//
// A producer calls Submit, which uploads the contents and then inserts. A consumer calls Work. Its handler gets a reader of the
// chunk's object, and a writer: the bytes that it writes become an object, whose key is the chunk's output. The package removes
// objects only on request: Remove those of one submission, Sweep those of submissions that the server no longer has.
//
// Open the bucket with gocloud.dev/blob, and import the drivers that you need:
//
//	import _ "gocloud.dev/blob/s3blob"
//
//	bucket, err := blob.OpenBucket(ctx, "s3://work?region=eu-central-1&prefix=quern-a/")
//	store := objects.Store{Client: c, Bucket: bucket}
//
// Keys are relative to the bucket and its prefix, so a consumer reads only from its own bucket, whatever a producer inserts. Each
// submission has a folder for its contents below "quern/contents/", and one for its outputs below "quern/outputs/". The package
// lists and removes nothing else in the bucket.
package objects
